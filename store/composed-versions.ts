import { openComposed, sealComposed } from './composed-values.ts';
import type { ComposedSecrets } from './composed-values.ts';
import type { DeepReadonly } from './deep-readonly.ts';
import { jsonEqual } from './json-equal.ts';
import type { BuiltImage } from './kinds/application.ts';
import { isWriting } from './kinds/composed-service.ts';
import type { PlainComposedService, StoredComposedService } from './kinds/composed-service.ts';
import { plainCopy } from './plain-copy.ts';
import type { ReadonlyResource } from './resource.ts';

type Deployment = ReadonlyResource<'deployment'>;

/** What the services of a new deployment follow from, beside its compose file. */
export interface DeployedAs {
  application: { id: string; internal_id: string };
  deployment: { id: string; number: number };
  reuse: DeepReadonly<BuiltImage> | undefined;
  serving: Deployment | undefined;
}

/**
 * The services of a new deployment, with their values sealed. One that is as in the deployment that serves keeps its
 * version, so that its instances go on: where it may write to a volume, as there it would be away meanwhile, and where its
 * image is given by `reuse`. Any other one gets new instances, which take its tag anew. One that is built gets the tag
 * that its image will have.
 */
export function deployedServices(
  ctx: ComposedSecrets,
  services: readonly PlainComposedService[],
  { application, deployment, reuse, serving }: DeployedAs,
): StoredComposedService[] {
  return services.map((plain): StoredComposedService => {
    const isBuilt = plain.build !== undefined;
    const known = reuse?.services?.[plain.name];
    const pinned = known !== undefined && (isBuilt || known.image === plain.image) ? known : undefined;
    const digest = pinned?.image_digest;
    const same = sameIn(ctx, application.id, serving, plain);
    const served = same && digestIn(serving, same);
    const goesOn = digest === undefined ? isWriting(plain) && !isBuilt : digest === served;
    if (same !== undefined && goesOn) return pinnedTo(same, served);
    const tag = `setpoint/${application.internal_id}:${deployment.number}-${plain.name}`;
    return {
      ...sealComposed(ctx, application.id, plain),
      ...(isBuilt && { image: pinned?.image ?? tag }),
      version: deployment.id,
      ...(digest !== undefined && { image_digest: digest }),
    };
  });
}

/**
 * The services of a deployment that returns to an earlier one: exactly those, with the images that they had. One that is
 * the same in the deployment that serves goes on.
 */
export function returnedServices(
  earlier: Deployment,
  serving: Deployment | undefined,
  deploymentId: string,
): StoredComposedService[] {
  return (earlier.desired.services ?? []).map((it) => {
    const now = serving?.desired.services?.find(({ name }) => name === it.name);
    const digest = digestIn(earlier, it);
    const goesOn = now?.version === it.version && digest !== undefined && digestIn(serving, now) === digest;
    return goesOn ? pinnedTo(now, digest) : { ...pinnedTo(it, digest), version: deploymentId };
  });
}

function pinnedTo(it: DeepReadonly<StoredComposedService>, digest: string | undefined): StoredComposedService {
  return { ...plainCopy<StoredComposedService>(it), ...(digest !== undefined && { image_digest: digest }) };
}

/** The image that instances of the service have in the deployment, as far as it is known. */
function digestIn(of: Deployment | undefined, it: DeepReadonly<StoredComposedService>): string | undefined {
  return it.image_digest ?? of?.observed?.service_digests?.[it.name];
}

/** The service of the deployment that has the same settings and values. References in values may stand for others now. */
function sameIn(
  ctx: ComposedSecrets,
  applicationId: string,
  serving: Deployment | undefined,
  plain: PlainComposedService,
): DeepReadonly<StoredComposedService> | undefined {
  const before = serving?.desired.services?.find(({ name }) => name === plain.name);
  if (before === undefined || Object.values(plain.env).some((value) => value.includes('${'))) return undefined;
  return jsonEqual(openComposed(ctx, applicationId, before), plain) ? before : undefined;
}
