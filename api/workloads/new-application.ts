import type { DesiredOf } from '../../store/kinds/kinds.ts';
import type { TenantView } from '../../store/mirror.ts';
import { badField } from '../ground/api-error.ts';
import type { RequestContext } from '../endpoint/context.ts';
import { assign } from '../resources/object-fields.ts';
import type { ApplicationCreate, ApplicationUpdate } from '../resources/application.ts';
import { countLimits, requireRoom } from '../rights/count-limits.ts';
import { sealEnv } from './application-env.ts';
import { sourceFrom } from './application-source.ts';
import { newInternalId } from './internal-id.ts';
import { requireEnvRoom } from './server-room.ts';

type Desired = DesiredOf<'application'>;
type PlaceIds = Pick<Desired, 'project_id' | 'environment_id' | 'server_id'>;
type Context = Pick<RequestContext, 'tenant' | 'view' | 'random' | 'sealer' | 'unsealer'>;

/** The id and the desired state of a new application. It is stopped. @throws ApiError BAD_REQUEST */
export function newApplication(
  ctx: Context,
  place: PlaceIds,
  body: Omit<ApplicationCreate, keyof PlaceIds>,
): { id: string; desired: Desired } {
  refuseRegistry(body);
  const id = ctx.random.id();
  const desired: Desired = {
    ...place,
    name: body.name,
    internal_id: newInternalId(body.name, ctx.random),
    app_type: body.app_type ?? 'web',
    source: sourceFrom(ctx, id, body),
    config: { env: {}, restart_policy: 'always' },
    autodeploy: false,
    replicas: body.replicas ?? 1,
    mounts: [],
    run: 'stopped',
    next_deployment_number: 1,
  };
  applyFields(ctx, desired, body, id);
  return { id, desired };
}

/** Requires that so many more applications may be created there. @throws ApiError CONFLICT */
export function requireApplicationRoom(
  view: TenantView,
  { environment_id, project_id }: PlaceIds,
  { adding }: { adding: number },
): void {
  const others = adding - 1;
  const inEnvironment = view.by('application', 'environment', environment_id).length + others;
  requireRoom(inEnvironment, countLimits.applicationsPerEnvironment, {
    where: 'The environment',
    what: 'applications',
    remedy: 'delete one that is not needed, or use another environment',
  });
  requireRoom(view.by('application', 'project', project_id).length + others, countLimits.applicationsPerProject, {
    where: 'The project',
    what: 'applications',
    remedy: 'delete one that is not needed, or use another project',
  });
}

/** Requires that so many more volumes may be created in a project. @throws ApiError CONFLICT */
export function requireVolumeRoom(view: TenantView, projectId: string, { adding }: { adding: number }): void {
  requireRoom(view.by('volume', 'project', projectId).length + adding - 1, countLimits.volumesPerProject, {
    where: 'The project',
    what: 'volumes',
    remedy: 'delete one that is not needed, or use another project',
  });
}

/** Registries do not exist yet: a reference to one would be dropped silently. */
export function refuseRegistry({ registry_id }: Pick<ApplicationUpdate, 'registry_id'>): void {
  if (registry_id !== undefined && registry_id !== null)
    throw badField('registry_id', 'not_found', 'Registries are not served yet');
}

/** Writes the sent fields, except name and source, into a draft. */
export function applyFields(ctx: Context, draft: Desired, body: ApplicationUpdate, id: string): void {
  const { config } = draft;
  draft.app_type = body.app_type ?? draft.app_type;
  draft.autodeploy = body.autodeploy ?? draft.autodeploy;
  assign(draft, 'watch_paths', body.watch_paths);
  assign(config, 'exposed_port', body.exposed_port);
  assign(config, 'healthcheck_path', body.healthcheck_path);
  assign(config, 'start_command', body.start_command);
  assign(config, 'memory_limit', body.memory_limit);
  assign(config, 'cpu_limit', body.cpu_limit);
  config.restart_policy = body.restart_policy ?? config.restart_policy;
  if (body.env === undefined) return;
  const env = sealEnv(ctx, id, body.env ?? {}, config.env);
  requireEnvRoom(env, config.env);
  config.env = env;
}
