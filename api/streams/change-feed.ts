import { parseKey } from '../../store/keys.ts';
import type { KindName } from '../../store/kinds/kinds.ts';
import type { Mirror, ObjectChange } from '../../store/mirror.ts';
import type { ReadonlyResource } from '../../store/resource.ts';
import type { Revision } from '../../store/revision.ts';
import { isSuccess, successes } from '../../store/serving.ts';
import type { Keep } from '../kept.ts';
import { keptApplication } from '../resources/application.ts';
import { keptDeployment } from '../resources/deployment.ts';
import { keptEnvironment } from '../resources/environment.ts';
import { keptProject } from '../resources/project.ts';
import { keptServer, keptServerSummary } from '../resources/server.ts';
import type { Store } from '../../store/store.ts';
import { projectIdOf } from '../subject.ts';
import { cursorOf, isOfHistory } from './position.ts';
import type { Position } from './position.ts';
import { PreparedFrame } from './prepared-frame.ts';

/** Kinds whose changes are published. */
export const watchedKinds = ['project', 'environment', 'server', 'application', 'deployment'] as const;
export type WatchedKind = (typeof watchedKinds)[number];

const maxTombstones = 10_000;

/** A change as readers see it. Its frames are built once for all readers. */
export interface FeedChange {
  kind: WatchedKind;
  id: string;
  revision: Revision;
  /** The project whose roles decide who sees it, as it is or last was; absent for servers. */
  project: ReadonlyResource<'project'> | undefined;
  /** For a change of a server: the server as it is or last was. */
  server?: ReadonlyResource<'server'>;
  /** `masked`: for readers who see only name and status of a server. */
  frame(masked: boolean): PreparedFrame;
}

export interface FeedReader {
  tenant: string;
  changed(change: FeedChange): void;
}

/**
 * Publishes changes to readers, from the one mirror of the process. What a reader missed is rebuilt from the present:
 * the last state of everything that changed since, and the deletions that are still remembered.
 */
export class ChangeFeed implements Disposable {
  readonly #store: Pick<Store, 'incarnation'>;
  readonly #mirror: Mirror;
  readonly #keep: Keep;
  readonly #readers = new Set<FeedReader>();
  readonly #tombstones: { tenant: string; change: FeedChange }[] = [];
  /** Deletions after this revision are remembered. */
  #complete: Revision;
  readonly #unsubscribe: (() => void)[];

  constructor(store: Pick<Store, 'incarnation'>, mirror: Mirror, keep: Keep) {
    this.#store = store;
    this.#mirror = mirror;
    this.#keep = keep;
    this.#complete = mirror.applied;
    this.#unsubscribe = [
      mirror.subscribe((change) => this.#objectChanged(change)),
      mirror.subscribeKeys(({ key, revision }) => {
        const meaning = parseKey(key);
        if (meaning?.area === 'agent') this.#tell(meaning.tenant, 'server', meaning.server, revision);
      }),
    ];
  }

  /** Calls the reader synchronously, in the order of revisions, until the returned function is called. */
  subscribe(reader: FeedReader): () => void {
    this.#readers.add(reader);
    return () => void this.#readers.delete(reader);
  }

  /**
   * The changes after a position, in the order of revisions: the last state of each object. `lost`: a deletion may be
   * missing, or the position is of another history, for which no changes are known.
   */
  since(tenant: string, position: Position): { changes: readonly FeedChange[]; lost: boolean } {
    if (!isOfHistory(position, this.#store.incarnation)) return { changes: [], lost: true };
    const { revision: after } = position;
    const view = this.#mirror.tenant(tenant);
    const changes = watchedKinds.flatMap((kind) =>
      view.list(kind).flatMap((it) => {
        const revision = lastRevisionOf(it);
        return revision > after ? [this.#changeOf(tenant, it, revision)] : [];
      }),
    );
    const deleted = this.#tombstones
      .filter((one) => one.tenant === tenant && one.change.revision > after)
      .map(({ change }) => change)
      .filter(({ kind, id }) => view.get(kind, id) === undefined);
    return {
      changes: [...changes, ...deleted].sort((a, b) => a.revision - b.revision),
      lost: after < this.#complete || after > this.#mirror.applied,
    };
  }

  [Symbol.dispose](): void {
    for (const end of this.#unsubscribe) end();
  }

  #objectChanged(change: ObjectChange): void {
    const { tenant, kind, id, revision, after } = change;
    if (!isWatched(kind)) return;
    if (after === undefined) this.#deleted(change);
    else this.#tell(tenant, kind, id, revision);
    // the shown state of these objects depends on another object
    if (kind === 'deployment') this.#tellApplicationOf(change);
    if (kind === 'project') this.#tellEnvironmentsOf(change);
  }

  /** The status of an application follows from its newest deployment; one that succeeds replaces the current one. */
  #tellApplicationOf({ tenant, id, revision, before, after }: ObjectChange): void {
    // a change of a deployment contains deployments
    const [old, now] = [before, after] as (ReadonlyResource<'deployment'> | undefined)[];
    if (now === undefined) return;
    const view = this.#mirror.tenant(tenant);
    const app = view.get('application', now.desired.application_id);
    if (app?.desired.deployment_id === id) this.#tell(tenant, 'application', app.meta.id, revision);
    if (!isSuccess(now) || (old !== undefined && isSuccess(old))) return;
    const [, previous] = successes(view, now.desired.application_id);
    if (previous !== undefined) this.#tell(tenant, 'deployment', previous.meta.id, revision);
  }

  /** A project names its default environment, so that its change may change two environments. */
  #tellEnvironmentsOf({ tenant, revision, before, after }: ObjectChange): void {
    const [old, now] = [before, after].map(
      // the change is of a project
      (it) => (it as ReadonlyResource<'project'> | undefined)?.desired.default_environment_id,
    );
    if (old === now || now === undefined) return;
    for (const id of [old, now]) if (id !== undefined) this.#tell(tenant, 'environment', id, revision);
  }

  #tell(tenant: string, kind: WatchedKind, id: string, revision: Revision): void {
    if (this.#readers.size === 0) return;
    const it = this.#mirror.tenant(tenant).get(kind, id);
    if (it !== undefined) this.#publish(tenant, this.#changeOf(tenant, it, revision));
  }

  #deleted({ tenant, kind, id, revision, before }: ObjectChange): void {
    if (!isWatched(kind)) return;
    const frame = new PreparedFrame(
      JSON.stringify({ type: 'change', op: 'delete', kind, id, cursor: this.cursor(revision) }),
    );
    // the kind was checked above
    const project = before && this.#projectOf(tenant, before as ReadonlyResource<WatchedKind>);
    const server = serverIn(before);
    const change: FeedChange = { kind, id, revision, project, ...(server && { server }), frame: () => frame };
    this.#tombstones.push({ tenant, change });
    if (this.#tombstones.length > maxTombstones) {
      const forgotten = this.#tombstones.shift();
      if (forgotten !== undefined) this.#complete = forgotten.change.revision;
    }
    this.#publish(tenant, change);
  }

  #publish(tenant: string, change: FeedChange): void {
    for (const reader of this.#readers) if (reader.tenant === tenant) reader.changed(change);
  }

  #changeOf(tenant: string, it: ReadonlyResource<WatchedKind>, revision: Revision): FeedChange {
    const { kind, id } = it.meta;
    const frames = new Map<boolean, PreparedFrame>();
    const server = serverIn(it);
    return {
      kind,
      id,
      revision,
      project: this.#projectOf(tenant, it),
      ...(server && { server }),
      frame: (masked) => {
        let frame = frames.get(masked);
        if (frame === undefined) {
          const head = JSON.stringify({ type: 'change', op: 'put', kind, id, cursor: this.cursor(revision) });
          frame = new PreparedFrame(`${head.slice(0, -1)},"object":${this.#json(tenant, it, masked)}}`);
          frames.set(masked, frame);
        }
        return frame;
      },
    };
  }

  #projectOf(tenant: string, it: ReadonlyResource<WatchedKind>): ReadonlyResource<'project'> | undefined {
    if (it.meta.kind === 'project') return it as ReadonlyResource<'project'>; // the kind was just checked
    const id = projectIdOf(it);
    return id === undefined ? undefined : this.#mirror.tenant(tenant).get('project', id);
  }

  #json(tenant: string, it: ReadonlyResource<WatchedKind>, masked: boolean): string {
    const view = this.#mirror.tenant(tenant);
    const keep = this.#keep;
    switch (it.meta.kind) {
      case 'project':
        return keptProject(keep, it as ReadonlyResource<'project'>).json;
      case 'environment':
        return keptEnvironment(keep, it as ReadonlyResource<'environment'>, view).json;
      case 'application':
        return keptApplication(keep, it as ReadonlyResource<'application'>, view).json;
      case 'deployment':
        return keptDeployment(keep, it as ReadonlyResource<'deployment'>, view).json;
      case 'server': {
        const server = it as ReadonlyResource<'server'>; // each case matches `meta.kind`
        return (masked ? keptServerSummary(keep, server, view) : keptServer(keep, server, view)).json;
      }
    }
  }

  /** A position that a reader can resume from. */
  cursor(revision: Revision = this.#mirror.applied): string {
    return cursorOf(this.#store.incarnation, revision);
  }
}

export function isWatched(kind: KindName): kind is WatchedKind {
  return (watchedKinds as readonly string[]).includes(kind); // includes wants the type that it narrows to
}

function serverIn(it: ReadonlyResource | undefined): ReadonlyResource<'server'> | undefined {
  return it?.meta.kind === 'server' ? (it as ReadonlyResource<'server'>) : undefined; // the kind was just checked
}

function lastRevisionOf({ meta }: ReadonlyResource): Revision {
  const { desiredRevision, observedRevision } = meta;
  return observedRevision !== undefined && observedRevision > desiredRevision ? observedRevision : desiredRevision;
}
