import { isWriting } from '../../store/kinds/composed-service.ts';
import type { RunConfig } from '../../store/kinds/application.ts';
import type { TenantView } from '../../store/mirror.ts';
import { builtBy } from '../../store/built-by.ts';
import { createDeployment, setToRun } from '../../store/new-deployment.ts';
import type { NewDeployment } from '../../store/new-deployment.ts';
import { forkPreviewOf, isAwaitingApproval } from '../../store/preview.ts';
import type { Unit } from '../../store/unit-of-work.ts';
import type { DeepReadonly } from '../../store/deep-readonly.ts';
import { isStaying } from '../../store/resource.ts';
import type { ReadonlyResource, Resource } from '../../store/resource.ts';
import { sealedEqual } from '../../store/sealed-equal.ts';
import { servingDeployment } from '../../store/serving.ts';
import { conflicting } from '../ground/api-error.ts';
import type { RequestContext } from '../endpoint/context.ts';
import { requireGrant } from '../rights/grants.ts';
import { composedFor, publishedPorts } from './composed.ts';
import type { Composed } from './composed.ts';
import { requirePort, requirePortOf } from './ports.ts';
import { requireSourceGrants } from './source-access.ts';
import { isSettled, isUnfinished, targetOf } from '../resources/status.ts';
import { hasEnded } from '../../rules/application.ts';

type Application = ReadonlyResource<'application'>;
type Deployment = ReadonlyResource<'deployment'>;
type Context = Pick<
  RequestContext,
  'view' | 'random' | 'clock' | 'principal' | 'config' | 'tenant' | 'sealer' | 'unsealer'
>;

type Deploying = Omit<NewDeployment, 'triggeredBy' | 'queued_at'>;

/**
 * Adds a deployment of the application, as the unit has changed it so far, and points the application at it. An
 * application that was scaled to 0 gets its earlier replicas back, since it is asked to run.
 *
 * @throws ApiError FORBIDDEN or CONFLICT if its server or its port cannot be used.
 */
export async function addDeployment(
  ctx: Context,
  unit: Unit,
  it: Application,
  what: Deploying,
): Promise<Resource<'deployment'>> {
  const server = ctx.view.get('server', it.desired.server_id);
  if (!isStaying(server))
    throw conflicting(
      'Cannot deploy as the server of the application was deleted: create the application anew on another server',
    );
  requireGrant(server, it.desired.project_id, 'server_id');
  unit.require(server);
  const { desired: coming } = unit.change(it, asItIs);
  requireSourceGrants(ctx.view, coming, what.source ?? coming.source);
  const commit = commitToBuild(ctx.view, it, what);
  const id = ctx.random.id();
  const composed = await servicesFor(ctx, unit.change(it, asItIs), id, what);
  const made = createDeployment(unit, it, id, {
    ...what,
    ...composed,
    commit,
    triggeredBy: ctx.principal.user.meta.id,
    queued_at: ctx.clock.now().toISOString(),
  });
  const { config, services } = made.desired;
  if (services === undefined) requirePortOf(ctx, { meta: it.meta, desired: { ...it.desired, config } });
  else
    for (const port of publishedPorts(services, config.exposed_port))
      requirePort(ctx, {
        id: it.meta.id,
        projectId: it.desired.project_id,
        serverId: it.desired.server_id,
        port,
      });
  return made;
}

/**
 * The commit that is built; `undefined`: the head of the branch. Of a fork it is the one that a person approved.
 * @throws ApiError CONFLICT while another one waits for that
 */
function commitToBuild(
  view: TenantView,
  { desired }: Application,
  { source = desired.source, commit, reuse }: Deploying,
): string | undefined {
  const preview = reuse === undefined ? forkPreviewOf(view, desired.environment_id, source) : undefined;
  if (preview === undefined) return commit;
  const { name, commit: asked = 'which is not known', approved_commit: approved } = preview.desired;
  if (commit !== undefined && commit === approved) return commit;
  if (approved === undefined || isAwaitingApproval(preview))
    throw conflicting(
      `Cannot build what a fork has, as commit ${asked.slice(0, 12)} waits for an approval: look at it, then approve it in preview ${name}`,
    );
  return approved;
}

/** The state of an object as the unit has changed it so far. */
function asItIs(): void {}

/** What a deployment of a compose file has beside its source. @throws ApiError BAD_REQUEST for what is refused */
async function servicesFor(
  ctx: Context,
  it: Application,
  deploymentId: string,
  { source = it.desired.source, reuse, rollbackOf }: Deploying,
): Promise<Partial<Composed>> {
  if (source.type !== 'compose') return {};
  const serving = servingDeployment(ctx.view, it.meta.id);
  const returnsTo = rollbackOf === undefined ? undefined : ctx.view.get('deployment', rollbackOf);
  return composedFor(ctx, it, source, { deploymentId, reuse, serving, returnsTo });
}

/** Sets the application to run, by a new deployment of it or by an identical one under way. */
export async function startDeployment(
  ctx: Context & Pick<RequestContext, 'request'>,
  unit: Unit,
  it: Application,
): Promise<Started> {
  const same = ctx.request.isKeyed ? undefined : sameUnderWay(it, ctx.view);
  const next = unit.change(it, setToRun);
  return { next, target: same ?? (await addDeployment(ctx, unit, it, { trigger: 'manual' })) };
}

/** The application after a unit's changes; `target` is its deployment, if the unit adds or reuses one. */
export interface Coming {
  next: Application;
  target?: Deployment;
}
type Started = Required<Coming>;

/**
 * Runs what served last, by a new deployment if the configuration has changed since; once more what has come to its end.
 * Deploys if nothing has served yet.
 */
export async function startUp(
  ctx: Context & Pick<RequestContext, 'request'>,
  unit: Unit,
  it: Application,
): Promise<Coming> {
  const { run: before } = it.desired;
  const serving = servingDeployment(ctx.view, it.meta.id);
  if (serving === undefined)
    return activeOf(it, ctx.view) === undefined ? startDeployment(ctx, unit, it) : { next: unit.change(it, setToRun) };
  const again = before === 'running' && isSettled(it) && hasEnded(it.observed?.conditions);
  const { services } = serving.desired;
  if (again && services?.every(({ restart_policy }) => restart_policy === 'no') === true)
    throw conflicting(
      'All of its services have come to their end, and each runs once per deployment: deploy it again to run them',
    );
  const isAsServing = before === 'running' || sealedEqual(serving.desired.config, it.desired.config, ctx.view.isSame);
  const next = unit.change(it, (draft) => {
    setToRun(draft);
    // what was asked for after the stop has ended, if there was any, and what served before is asked for now
    if (isAsServing && activeOf(it, ctx.view) === undefined) delete draft.starts_from;
    if (again) draft.restart_token = ctx.random.id();
  });
  requirePortOf(ctx, next);
  if (isAsServing) return { next };
  const { source } = serving.desired;
  return { next, target: await addDeployment(ctx, unit, it, { trigger: 'config', source, reuse: builtBy(serving) }) };
}

/** Sets the number of replicas: 0 stops the application, and more than 0 after that starts it again. */
export async function scale(
  ctx: Context & Pick<RequestContext, 'request'>,
  unit: Unit,
  it: Application,
  replicas: number,
): Promise<Coming> {
  const { replicas: before, mounts } = it.desired;
  if (replicas > 1 && mounts.some((mount) => !mount.read_only))
    throw conflicting('Cannot run several instances as the application may write to a volume: unbind it first');
  const isComposed = replicas > 1 && it.desired.source.type === 'compose';
  const [main] = (isComposed ? servingDeployment(ctx.view, it.meta.id)?.desired.services : undefined) ?? [];
  if (main !== undefined && isWriting(main))
    throw conflicting(`Cannot run several instances as ${main.name} may write to a volume: mount it with :ro first`);
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

/** The deployment under way with the same source and configuration, if no server has read its source yet. */
function sameUnderWay(it: Application, view: TenantView): Deployment | undefined {
  const active = activeOf(it, view);
  // what was pushed since a build began is not in it
  if (active === undefined || (active.observed?.phase ?? 'queued') !== 'queued') return undefined;
  const { source, commit, config, rollback_of } = active.desired;
  // The branch may have moved on since a comparison found the commit of that deployment.
  const isSame =
    commit === undefined &&
    rollback_of === undefined &&
    sealedEqual(source, it.desired.source, view.isSame) &&
    sealedEqual(config, it.desired.config, view.isSame);
  return isSame ? active : undefined;
}

/**
 * Adds a deployment that brings a changed configuration to a running application, without a build. It keeps the source
 * of the deployment under way, or of the serving one, until the next deploy. Returns `undefined` if there is no such
 * deployment or the configuration is the same.
 */
export async function addConfigDeployment(
  ctx: Context,
  unit: Unit,
  it: Application,
  config: DeepReadonly<RunConfig>,
): Promise<Resource<'deployment'> | undefined> {
  const base = activeOf(it, ctx.view) ?? servingDeployment(ctx.view, it.meta.id);
  if (base === undefined || sealedEqual(base.desired.config, config, ctx.view.isSame)) return undefined;
  const { source, commit } = base.desired;
  return addDeployment(ctx, unit, it, { trigger: 'config', source, commit, reuse: builtBy(base) });
}

/** Requests the cancellation of the deployment under way, if there is one. */
export function cancelActive(unit: Unit, it: Application, view: TenantView): void {
  const active = activeOf(it, view);
  if (active !== undefined) unit.change(active, (draft) => void (draft.cancel_requested = true));
}
