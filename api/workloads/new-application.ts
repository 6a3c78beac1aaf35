import { defined } from '../../store/defined.ts';
import type { DesiredOf } from '../../store/kinds/kinds.ts';
import type { TenantView } from '../../store/mirror.ts';
import { badField } from '../ground/api-error.ts';
import type { RequestContext } from '../endpoint/context.ts';
import { assign } from '../resources/object-fields.ts';
import type { ApplicationCreate, ApplicationUpdate } from '../resources/application.ts';
import { countLimits, requireRoom } from '../rights/count-limits.ts';
import { sealEnv } from './application-env.ts';
import { referencesIn } from './env-references.ts';
import { newHostName, requireHostName } from './host-name.ts';
import { sourceFrom } from './application-source.ts';
import { newInternalId } from './internal-id.ts';
import { requireReadiness } from './readiness-settings.ts';
import { requireEnvRoom } from './server-room.ts';

type Desired = DesiredOf<'application'>;
type PlaceIds = Pick<Desired, 'project_id' | 'environment_id' | 'server_id'>;
type Context = Pick<RequestContext, 'tenant' | 'view' | 'random' | 'sealer' | 'unsealer'>;

/** What an application that is declared anew keeps of what it is. */
export interface KnownApplication {
  id: string;
  desired: Pick<Desired, 'internal_id' | 'host_name'>;
}

/**
 * The id and the desired state of a new application. It is stopped. `hostNames` has the DNS names of others that the same
 * request makes; `known` is what it is, if it is there already and declared anew. @throws ApiError BAD_REQUEST, CONFLICT
 */
export function newApplication(
  ctx: Context,
  place: PlaceIds,
  body: Omit<ApplicationCreate, keyof PlaceIds>,
  { hostNames = new Set(), known }: { hostNames?: ReadonlySet<string>; known?: KnownApplication | undefined } = {},
): { id: string; desired: Desired } {
  const id = known?.id ?? ctx.random.id();
  const { environment_id: environment } = place;
  const config: Desired['config'] = { env: {}, restart_policy: 'always' };
  const desired: Desired = {
    ...place,
    name: body.name,
    internal_id: known?.desired.internal_id ?? newInternalId(body.name, ctx.random),
    ...defined({
      host_name:
        known === undefined
          ? newHostName(ctx.view, environment, body.name, { also: hostNames })
          : known.desired.host_name,
    }),
    app_type: body.app_type ?? 'web',
    source: sourceFrom(ctx, id, body, { config }),
    config,
    autodeploy: false,
    replicas: body.replicas ?? 1,
    mounts: [],
    domains: [],
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

/** Writes the sent fields, except name and source, into a draft. */
export function applyFields(ctx: Context, draft: Desired, body: ApplicationUpdate, id: string): void {
  const { config } = draft;
  if (typeof body.host_name === 'string') requireHostName(ctx.view, draft.environment_id, body.host_name, id);
  assign(draft, 'host_name', body.host_name);
  const before = { type: draft.app_type, port: config.exposed_port };
  if (body.app_type !== undefined) draft.app_type = body.app_type ?? 'web';
  if (body.autodeploy !== undefined) draft.autodeploy = body.autodeploy ?? false;
  assign(draft, 'registry_id', body.registry_id);
  assign(draft, 'autodeploy_interval', body.autodeploy_interval);
  assign(draft, 'watch_paths', body.watch_paths);
  assign(draft, 'max_surge', body.max_surge);
  assign(draft, 'min_healthy_seconds', body.min_healthy_seconds);
  assign(draft, 'healthy_deadline', body.healthy_deadline);
  assign(draft, 'drain_seconds', body.drain_seconds);
  assign(draft, 'stop_grace_seconds', body.stop_grace_seconds);
  assign(config, 'exposed_port', body.exposed_port);
  assign(config, 'healthcheck_path', body.healthcheck_path);
  assign(config, 'healthcheck', body.healthcheck);
  assign(config, 'start_command', body.start_command);
  assign(config, 'memory_limit', body.memory_limit);
  assign(config, 'cpu_limit', body.cpu_limit);
  assign(config, 'shm_size', body.shm_size);
  assign(config, 'pids_limit', body.pids_limit);
  assign(config, 'ulimits', body.ulimits);
  const wasSo = before.type === 'worker' && before.port !== undefined;
  if (draft.app_type === 'worker' && config.exposed_port !== undefined && !wasSo)
    throw badField('exposed_port', 'not_for_workers', 'A worker has no port: leave exposed_port out, or choose web');
  if (body.restart_policy !== undefined) config.restart_policy = body.restart_policy ?? 'always';
  requireReadiness(draft, body);
  if (body.env === undefined) return;
  const env = sealEnv(ctx, id, body.env ?? {}, config.env);
  requireEnvRoom(env, config.env);
  config.env = env;
  assign(config, 'references', referencesIn(ctx.view, draft.environment_id, body.env ?? {}) ?? null);
}
