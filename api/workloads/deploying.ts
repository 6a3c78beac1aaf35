import { jsonEqual } from '../../store/json-equal.ts';
import type { BuiltImage, RunConfig, Source } from '../../store/kinds/application.ts';
import type { DesiredOf } from '../../store/kinds/kinds.ts';
import type { TenantView } from '../../store/mirror.ts';
import { plainCopy } from '../../store/plain-copy.ts';
import type { Unit } from '../../store/unit-of-work.ts';
import type { DeepReadonly } from '../../store/deep-readonly.ts';
import { isStaying } from '../../store/resource.ts';
import type { ReadonlyResource, Resource } from '../../store/resource.ts';
import { servingDeployment } from '../../store/serving.ts';
import { conflicting } from '../ground/api-error.ts';
import type { RequestContext } from '../endpoint/context.ts';
import { requireGrant } from '../rights/grants.ts';
import { requirePortOf } from './ports.ts';
import { isUnfinished, targetOf } from '../resources/status.ts';

type Application = ReadonlyResource<'application'>;
type Deployment = ReadonlyResource<'deployment'>;
type Context = Pick<RequestContext, 'view' | 'random' | 'clock' | 'principal' | 'config'>;

interface NewDeployment {
  trigger: DesiredOf<'deployment'>['trigger'];
  /** Present: nothing is built. */
  reuse?: DeepReadonly<BuiltImage> | undefined;
  rollbackOf?: string;
  /** Instead of the source of the application. */
  source?: DeepReadonly<Source>;
}

/**
 * Adds a deployment of the application, as the unit has changed it so far, and points the application at it. An
 * application that was scaled to 0 gets its earlier replicas back, since it is asked to run.
 *
 * @throws ApiError FORBIDDEN or CONFLICT if its server or its port cannot be used.
 */
export function addDeployment(ctx: Context, unit: Unit, it: Application, what: NewDeployment): Resource<'deployment'> {
  const server = ctx.view.get('server', it.desired.server_id);
  if (!isStaying(server))
    throw conflicting(
      'Cannot deploy as the server of the application was deleted: create the application anew on another server',
    );
  requireGrant(server, it.desired.project_id, 'server_id');
  unit.require(server);
  const id = ctx.random.id();
  const { number, desired } = point(unit, it, id);
  requirePortOf(ctx, { meta: it.meta, desired });
  return unit.create('deployment', id, {
    application_id: it.meta.id,
    project_id: desired.project_id,
    environment_id: desired.environment_id,
    server_id: desired.server_id,
    number,
    trigger: what.trigger,
    triggered_by: ctx.principal.user.meta.id,
    source: plainCopy<Source>(what.source ?? desired.source),
    config: plainCopy<RunConfig>(desired.config),
    ...(what.reuse !== undefined && { reuse: { ...what.reuse } }),
    ...(what.rollbackOf !== undefined && { rollback_of: what.rollbackOf }),
    queued_at: ctx.clock.now().toISOString(),
    cancel_requested: false,
  });
}

function point(unit: Unit, it: Application, id: string) {
  let number = 0;
  const { desired } = unit.change(it, (draft) => {
    number = draft.next_deployment_number;
    draft.next_deployment_number = number + 1;
    draft.deployment_id = id;
    run(draft);
  });
  return { number, desired };
}

/** Sets an application to run; after a scale to 0 it gets its earlier replicas back. */
function run(draft: DesiredOf<'application'>): void {
  draft.run = 'running';
  if (draft.replicas === 0) draft.replicas = draft.last_replicas ?? 1;
}

/** Sets the application to run, by a new deployment of it or by an identical one under way. */
export function startDeployment(ctx: Context & Pick<RequestContext, 'request'>, unit: Unit, it: Application): Started {
  const same = ctx.request.isKeyed ? undefined : sameUnderWay(it, ctx.view);
  const next = unit.change(it, run);
  return { next, target: same ?? addDeployment(ctx, unit, it, { trigger: 'manual' }) };
}

/** The application after a unit's changes; `target` is its deployment, if the unit adds or reuses one. */
export interface Coming {
  next: Application;
  target?: Deployment;
}
type Started = Required<Coming>;

/**
 * Runs what served last, by a new deployment if the configuration has changed since. Deploys if nothing has served yet.
 */
export function startUp(ctx: Context & Pick<RequestContext, 'request'>, unit: Unit, it: Application): Coming {
  const { run: before } = it.desired;
  const serving = servingDeployment(ctx.view, it.meta.id);
  if (serving === undefined)
    return activeOf(it, ctx.view) === undefined ? startDeployment(ctx, unit, it) : { next: unit.change(it, run) };
  const next = unit.change(it, run);
  requirePortOf(ctx, next);
  if (before === 'running' || jsonEqual(serving.desired.config, next.desired.config)) return { next };
  const { source } = serving.desired;
  return { next, target: addDeployment(ctx, unit, it, { trigger: 'config', source, reuse: builtBy(serving) }) };
}

/** Sets the number of replicas: 0 stops the application, and more than 0 after that starts it again. */
export function scale(
  ctx: Context & Pick<RequestContext, 'request'>,
  unit: Unit,
  it: Application,
  replicas: number,
): Coming {
  const { replicas: before, mounts } = it.desired;
  if (replicas > 1 && mounts.some((mount) => !mount.read_only))
    throw conflicting('Cannot run several instances as the application may write to a volume: unbind it first');
  const next = unit.change(it, (draft) => {
    if (replicas === 0 && before > 0) draft.last_replicas = before;
    draft.replicas = replicas;
    if (replicas === 0) draft.run = 'stopped';
  });
  if (replicas === 0) cancelActive(unit, it, ctx.view);
  return replicas > 0 && before === 0 ? startUp(ctx, unit, next) : { next };
}

/** The deployment under way, unless it is being cancelled. */
export function activeOf(it: Application, view: TenantView): Deployment | undefined {
  const target = targetOf(it, view);
  return target !== undefined && isUnfinished(target) && !target.desired.cancel_requested ? target : undefined;
}

/** The image that a deployment has built or reuses. */
export function builtBy({ desired, observed }: Deployment): DeepReadonly<BuiltImage> | undefined {
  if (observed?.image === undefined || observed.image_digest === undefined) return desired.reuse;
  const { image, image_digest, commit, commit_message } = observed;
  return {
    image,
    image_digest,
    ...(commit !== undefined && { commit }),
    ...(commit_message !== undefined && { commit_message }),
  };
}

/** The deployment under way, if it is not beyond building and has the same source and configuration. */
function sameUnderWay(it: Application, view: TenantView): Deployment | undefined {
  const active = activeOf(it, view);
  if (active === undefined || active.observed?.phase === 'deploying') return undefined;
  const { source, config, rollback_of } = active.desired;
  const isSame =
    rollback_of === undefined && jsonEqual(source, it.desired.source) && jsonEqual(config, it.desired.config);
  return isSame ? active : undefined;
}

/**
 * Adds a deployment that brings a changed configuration to a running application, without a build. It keeps the source
 * of the deployment under way, or of the serving one, until the next deploy. Returns `undefined` if there is no such
 * deployment or the configuration is the same.
 */
export function addConfigDeployment(
  ctx: Context,
  unit: Unit,
  it: Application,
  config: DeepReadonly<RunConfig>,
): Resource<'deployment'> | undefined {
  const base = activeOf(it, ctx.view) ?? servingDeployment(ctx.view, it.meta.id);
  if (base === undefined || jsonEqual(base.desired.config, config)) return undefined;
  return addDeployment(ctx, unit, it, { trigger: 'config', source: base.desired.source, reuse: builtBy(base) });
}

/** Requests the cancellation of the deployment under way, if there is one. */
export function cancelActive(unit: Unit, it: Application, view: TenantView): void {
  const active = activeOf(it, view);
  if (active !== undefined) unit.change(active, (draft) => void (draft.cancel_requested = true));
}
