import type { TenantView } from '../../store/mirror.ts';
import type { ReadonlyResource } from '../../store/resource.ts';
import { successes } from '../../store/serving.ts';

type Deployment = ReadonlyResource<'deployment'>;

/** Revisions of an application whose images stay. */
const keptRevisions = 3;
/** Workloads per message. */
const batch = 1000;

interface Options {
  view: Pick<TenantView, 'by'>;
  server: string;
  send: (images: Record<string, string[]>, whole: boolean) => void;
}

/**
 * Sends one agent the images that it must not clean up: of each application on its server, those of the deployment that is
 * being rolled out, whose build is over and whose instances may not be asked for yet, of the one that serves, and of the two
 * revisions before it, to which a rollback may return; of each function those of its versions. It sends all of them at the
 * beginning, then the changes.
 */
export class ReturnableImages {
  readonly #options: Options;
  readonly #sent = new Map<string, string>();
  #hasBegun = false;

  constructor(options: Options) {
    this.#options = options;
  }

  begin(): void {
    this.#hasBegun = true;
    const { view, server } = this.#options;
    const all = (['application', 'function'] as const).flatMap((kind) =>
      view.by(kind, 'server', server).map(({ meta }) => meta.id),
    );
    for (let from = 0; from === 0 || from < all.length; from += batch)
      this.#send(all.slice(from, from + batch), from === 0);
  }

  /** A deployment of the application, or a version of the function, changed or was deleted. */
  changed(workload: string): void {
    if (this.#hasBegun) this.#send([workload], false);
  }

  #send(workloads: readonly string[], whole: boolean): void {
    const images: Record<string, string[]> = {};
    for (const id of workloads) {
      const digests = [...returnableImages(this.#options.view, id), ...versionImages(this.#options.view, id)];
      const text = digests.join(' ');
      if ((this.#sent.get(id) ?? '') === text) continue;
      images[id] = digests;
      if (text === '') this.#sent.delete(id);
      else this.#sent.set(id, text);
    }
    if (whole || Object.keys(images).length > 0) this.#options.send(images, whole);
  }
}

/**
 * Digests of the images of an application's deployment under way and of its last revisions that served, those of all services
 * of a compose file. Those of a registry may be gone from there.
 */
function returnableImages(view: Pick<TenantView, 'by'>, application: string): string[] {
  const revisions = new Map<string, string[]>();
  for (const it of successes(view, application)) {
    const all = imagesOf(it);
    if (all.length === 0) continue;
    revisions.set(all.join(' '), all);
    if (revisions.size === keptRevisions) break;
  }
  const underWay = view.by('deployment', 'application', application).filter(isBeingRolledOut).flatMap(imagesOf);
  return [...new Set([...underWay, ...[...revisions.values()].flat()])];
}

/** Digests of the images of all versions of a function: each may be deployed again. */
function versionImages(view: Pick<TenantView, 'by'>, id: string): string[] {
  return view.by('function_version', 'function', id).flatMap(({ observed }) => observed?.image_digest ?? []);
}

function isBeingRolledOut({ observed }: Deployment): boolean {
  return observed?.phase === 'deploying';
}

/** Digests of the images of a deployment, as far as they are known. */
function imagesOf({ desired, observed }: Deployment): string[] {
  if (observed?.image_digest === undefined) return [];
  const digests: Readonly<Record<string, string>> = observed.service_digests ?? {};
  const ofServices = (desired.services ?? []).flatMap(({ name, image_digest = digests[name] }) => image_digest ?? []);
  return [...new Set([observed.image_digest, ...ofServices])];
}
