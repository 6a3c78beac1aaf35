import type { ComposeFault } from '../../compose/fault.ts';
import { deployedServices, returnedServices } from '../../store/composed-versions.ts';
import type { DeepReadonly } from '../../store/deep-readonly.ts';
import { isUnread } from '../../store/kinds/application.ts';
import type { Source } from '../../store/kinds/application.ts';
import type { PlainComposedService, StoredComposedService } from '../../store/kinds/composed-service.ts';
import type { DesiredOf } from '../../store/kinds/kinds.ts';
import type { ReadonlyResource } from '../../store/resource.ts';
import type { RequestContext } from '../endpoint/context.ts';
import { ApiError, badField } from '../ground/api-error.ts';
import { composeFileOf, unsealEnv } from './application-env.ts';

type Context = Pick<RequestContext, 'tenant' | 'sealer' | 'unsealer'>;
type ComposeSource = DeepReadonly<Extract<Source, { type: 'compose' }>>;
type Desired = DeepReadonly<Pick<DesiredOf<'application'>, 'source' | 'config' | 'replicas'>>;

/** What is added to a deployment of a compose file. */
export interface Composed {
  services: StoredComposedService[];
  notes: string[];
}

/**
 * What the compose file of an application declares with its present variables; `undefined` for one in a repository, which
 * each deployment reads.
 *
 * @throws ApiError BAD_REQUEST that names each key which is refused
 */
async function compositionOf(
  ctx: Context,
  id: string,
  source: ComposeSource,
  { config, replicas }: Desired,
): Promise<{ services: readonly PlainComposedService[]; notes: readonly string[] } | undefined> {
  if (source.compose_file === undefined) return undefined;
  // few requests need it and its parser of YAML
  const { composedApplication, requireComposedRoom } = await import('../../compose/composed-application.ts');
  const { ComposeFault: Fault, inWords } = await import('../../compose/fault.ts');
  try {
    const composed = composedApplication({
      text: composeFileOf(ctx, id, source.compose_file),
      variables: new Map(Object.entries(unsealEnv(ctx, id, config.env))),
      inRepository: false,
      service: source.compose_service,
      exposedPort: config.exposed_port,
    });
    requireComposedRoom(composed.services, replicas);
    return composed;
  } catch (error) {
    if (error instanceof Fault) throw toApiError(error, error.findings.map(inWords));
    throw error;
  }
}

function toApiError({ field, reason, message }: ComposeFault, findings: readonly string[]): ApiError {
  if (findings.length === 0) return badField(field, reason, message);
  return new ApiError('BAD_REQUEST', message, {
    details: findings.map((finding) => ({ field, reason, message: finding })),
  });
}

/** Requires that an application of a compose file can be deployed as it is. @throws what {@link compositionOf} throws */
export async function requireComposable(ctx: Context, id: string, desired: Desired): Promise<void> {
  if (desired.source.type === 'compose') await compositionOf(ctx, id, desired.source, desired);
}

/**
 * What a new deployment has of its compose file. One whose file is in a repository has nothing before that is read, unless
 * it returns to an earlier one. @throws what {@link compositionOf} throws
 */
export async function composedFor(
  ctx: Context,
  { meta, desired }: ReadonlyResource<'application'>,
  source: ComposeSource,
  it: {
    deploymentId: string;
    reuse: DeepReadonly<DesiredOf<'deployment'>>['reuse'];
    serving: ReadonlyResource<'deployment'> | undefined;
    returnsTo: ReadonlyResource<'deployment'> | undefined;
  },
): Promise<Partial<Composed>> {
  const { deploymentId, reuse, serving, returnsTo } = it;
  const composition = await compositionOf(ctx, meta.id, source, desired);
  if (composition !== undefined)
    return {
      notes: [...composition.notes],
      services: deployedServices(ctx, composition.services, {
        application: { id: meta.id, internal_id: desired.internal_id },
        deployment: { id: deploymentId, number: desired.next_deployment_number },
        reuse,
        serving,
      }),
    };
  if (returnsTo === undefined || isUnread(returnsTo.desired)) return {};
  return {
    notes: [...(returnsTo.desired.notes ?? [])],
    services: returnedServices(returnsTo, serving, deploymentId),
  };
}

/** Ports of the server that the services of a deployment are to have. */
export function publishedPorts(
  services: DeepReadonly<readonly Pick<PlainComposedService, 'ports'>[]>,
  exposed: number | undefined,
): number[] {
  const ports = services.flatMap((it) => it.ports.flatMap(({ publish }) => publish ?? []));
  const isMapped = services[0]?.ports.some(({ port, publish }) => port === exposed && publish !== undefined) === true;
  return isMapped || exposed === undefined ? ports : [exposed, ...ports];
}
