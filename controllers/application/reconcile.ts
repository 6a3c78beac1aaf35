import type { Context, Controller, Next, Verdict } from '../runtime/controller.ts';
import { onChange, onChild } from '../runtime/wakes.ts';
import { isStaying } from '../../store/resource.ts';
import type { Ref } from '../../store/resource.ts';
import { perform } from '../rollout/actions.ts';
import { uncopiedPart } from '../rollout/mounted.ts';
import { alarmOf } from './alarm.ts';
import { branchConditions } from './branch.ts';
import { buildAgain, lostImageOf, mayBuild } from './lost-image.ts';
import { plan } from './plan.ts';
import { endingCertificates, planRoutes, readRoutes, routeConditions } from './routes.ts';
import type { RoutesWorld } from './routes.ts';
import { awaited, conditionsOf, isChanging, isUnready, observe, stateOf } from './states.ts';
import type { App, World } from './world.ts';
import { isActive, isKeptStopped, readWorld } from './world.ts';

export interface ApplicationSettings {
  /** A running application without a ready instance is in error after that many milliseconds. */
  unreadyGraceMs: number;
  /** An application that was started must have a ready instance within that many milliseconds. */
  startDeadlineMs: number;
}

/** Brings the instances of an application to its deployment, one by one; returns to the last success on failure. */
export function applicationController(settings: ApplicationSettings): Controller<'application'> {
  return {
    name: 'application',
    kind: 'application',
    reads: ['deployment', 'assignment', 'server', 'volume', 'operation', 'registry', 'git_credential'],
    children: ['application', 'assignment', 'deployment'],
    notifies: ['application_error', 'application_recovered', 'certificate_ends_soon'],
    wakes: [
      onChild('deployment', ({ desired }) => [desired.application_id]),
      onChild('assignment', ({ desired }) => [desired.workload_id]),
      onChild('operation', ({ desired }) =>
        desired.polled === undefined || desired.application_id === undefined ? [] : [desired.application_id],
      ),
      onChange(
        'server',
        ({ meta, desired, observed }) => [
          meta.deletionRequestedAt,
          desired.direct_ports_enabled,
          desired.ingress,
          observed?.phase,
        ],
        ({ meta }, view) => view.by('application', 'server', meta.id).map((app) => app.meta.id),
      ),
      // the name that messages have, and what no instance is made before
      onChange(
        'volume',
        (it) => [it.desired.name, uncopiedPart(it)],
        ({ meta }, view) => view.by('application', 'volume', meta.id).map((app) => app.meta.id),
      ),
    ],
    async reconcile(it, ctx) {
      const read = readWorld(it, ctx.view);
      const unreadyLeft = leftOfGrace(it, isUnready(read), ctx);
      const world: World = { ...read, unreadyTooLong: unreadyLeft !== undefined && unreadyLeft <= 0 };
      const lost = lostImageOf(world);
      if (lost !== undefined && mayBuild(it, lost, ctx)) await buildAgain(world, lost, ctx);
      await perform(ctx, plan(world));
      await stopAgain(world, ctx);
      const routes = readRoutes(it, ctx.view);
      await perform(ctx, planRoutes(routes));
      await notifyUsers(world, ctx);
      await notifyOfCertificates(it, routes, ctx);
      const outcome = withRoutes(verdict(world, ctx, unreadyLeft), routes);
      return { ...outcome, conditions: [...outcome.conditions, ...branchConditions(it, ctx)] };
    },
    async finalize(it, ctx) {
      const world: World = { ...readWorld(it, ctx.view), unreadyTooLong: false };
      await perform(ctx, plan(world));
      const deployments = ctx.view.by('deployment', 'application', it.meta.id);
      for (const deployment of deployments.filter(isStaying)) await ctx.retire('deployment', deployment.meta.id);
      const routes = readRoutes(it, ctx.view);
      await perform(ctx, planRoutes(routes));
      const released =
        world.slots.length + world.volumes.length + deployments.length === 0 && routes.routes === undefined;
      return { ...verdict(world, ctx, undefined), released };
    },
  };

  /** Milliseconds that an application without a ready instance has left; `undefined` if it has or needs none. */
  function leftOfGrace(it: App, unready: boolean, ctx: Context): number | undefined {
    const lasted = ctx.since('unready', unready);
    if (!unready) return undefined;
    const before = it.observed?.phase;
    const grace = before === 'running' || before === 'error' ? settings.unreadyGraceMs : settings.startDeadlineMs;
    return grace - lasted;
  }
}

/** An application that was stopped is so again where the deployment that was to start it has failed or was cancelled. */
async function stopAgain(world: World, ctx: Context): Promise<void> {
  const { app, target } = world;
  if (app.desired.run === 'stopped' || target === undefined || isActive(target) || !isKeptStopped(world)) return;
  const changed = await ctx.amend(
    'application',
    app.meta.id,
    (draft) => {
      // a start meanwhile takes what served
      if (draft.deployment_id === target.meta.id && draft.starts_from !== undefined) draft.run = 'stopped';
    },
    { audited: 'controller application' },
  );
  if (changed?.desired.run !== 'stopped') return;
  const message = `Deployment ${target.desired.number} does not serve: the application is stopped, as it was before. Start it to run what served last`;
  ctx.event(app, { type: 'warning', reason: 'StoppedAgain', message });
}

/** Reasons that come from a deployment: its own controller records them as events of the application, too. */
const isOfDeployment: ReadonlySet<string> = new Set([
  'Queued',
  'Building',
  'RollingOut',
  'WaitingForServer',
  'WaitingForVolume',
  'DeploymentFailed',
  'RolloutFailed',
  'DeploymentCancelled',
]);

function verdict(world: World, ctx: Context, unreadyLeft: number | undefined): Verdict<'application'> {
  const now = stateOf(world);
  const { app } = world;
  if (app.observed !== undefined && app.observed.phase !== now.phase && !isOfDeployment.has(now.reason)) {
    const trouble = now.phase === 'failed' || now.phase === 'error';
    ctx.event(app, { type: trouble ? 'warning' : 'normal', reason: now.reason, message: now.message });
  }
  const { notified } = alarmOf(world, now);
  const observed = { ...observe(world, now), ...(notified.length > 0 && { notified }) };
  return { observed, conditions: conditionsOf(world, now), next: nextOf(world, unreadyLeft) };
}

/** Notifies, once for each certificate, that it was not renewed in time. */
async function notifyOfCertificates(it: App, routes: RoutesWorld, ctx: Context): Promise<void> {
  for (const { host, expires_at, why } of endingCertificates(routes))
    await ctx.notify(it, `${it.meta.id}/certificate/${host}/${expires_at}`, {
      type: 'certificate_ends_soon',
      severity: 'warning',
      title: `The certificate for ${host} ends soon`,
      message: `It ends at ${expires_at} and was not renewed: ${why}. Check that the name leads to the server`,
    });
}

/** Adds what became of its domains; it does not wait for them. */
function withRoutes(it: Verdict<'application'>, routes: RoutesWorld): Verdict<'application'> {
  return { ...it, conditions: [...it.conditions, ...routeConditions(routes)] };
}

/** Notifies the users who may see the application of trouble that begins, and of its end. */
async function notifyUsers(world: World, ctx: Context): Promise<void> {
  const { app } = world;
  const { notified, notification } = alarmOf(world, stateOf(world));
  if (notification === undefined) return;
  const key = `${app.meta.id}/alarm/${notified.join('+')}/${app.meta.observedRevision ?? 0}`;
  await ctx.notify(app, key, notification);
}

function nextOf(world: World, unreadyLeft: number | undefined): Next {
  const now = stateOf(world);
  const { app, target } = world;
  const because = awaited(world, now);
  const inTime = (otherwise: Next): Next =>
    unreadyLeft !== undefined && unreadyLeft > 0 ? { again: unreadyLeft, because } : otherwise;
  const atRest = (): Next => (isChanging(world) ? { waitingFor: instances(world), because } : { settled: true });
  switch (now.reason) {
    case 'Queued':
    case 'Building':
    case 'RollingOut':
    case 'WaitingForServer':
    case 'WaitingForVolume':
      return { waitingFor: target === undefined ? [] : [{ kind: 'deployment', id: target.meta.id }], because };
    case 'ServerOffline':
    case 'EngineNotReady':
      return { waitingFor: [{ kind: 'server', id: app.desired.server_id }], because };
    case 'Starting':
    case 'Degraded':
    case 'NoReadyInstance':
      return inTime({ waitingFor: instances(world), because });
    case 'CrashLoop':
      // it was ready for a moment, and is in error unless it is so again
      return now.phase === 'running' ? inTime(atRest()) : atRest();
    case 'Deleting':
    case 'Stopping':
      return { waitingFor: instances(world), because };
    default:
      return atRest();
  }
}

function instances(world: World): Ref[] {
  return [...world.slots, ...world.volumes].map((it) => ({ kind: 'assignment', id: it.meta.id }));
}
