import type { Context, Controller, Next, Verdict } from '../runtime/controller.ts';
import { onChange, onChild } from '../runtime/wakes.ts';
import { isStaying } from '../../store/resource.ts';
import type { Ref } from '../../store/resource.ts';
import { perform } from '../rollout/actions.ts';
import { uncopiedPart } from '../rollout/mounted.ts';
import { plan } from './plan.ts';
import { awaited, conditionsOf, isChanging, isUnready, observe, stateOf } from './states.ts';
import type { App, World } from './world.ts';
import { readWorld } from './world.ts';

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
    reads: ['deployment', 'assignment', 'server', 'volume'],
    children: ['assignment', 'deployment'],
    notifies: ['application_error', 'application_recovered'],
    wakes: [
      onChild('deployment', ({ desired }) => [desired.application_id]),
      onChild('assignment', ({ desired }) => [desired.workload_id]),
      onChange(
        'server',
        ({ meta, desired, observed }) => [meta.deletionRequestedAt, desired.direct_ports_enabled, observed?.phase],
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
      await perform(ctx, plan(world));
      await notifyUsers(world, ctx);
      return verdict(world, ctx, unreadyLeft);
    },
    async finalize(it, ctx) {
      const world: World = { ...readWorld(it, ctx.view), unreadyTooLong: false };
      await perform(ctx, plan(world));
      const deployments = ctx.view.by('deployment', 'application', it.meta.id);
      for (const deployment of deployments.filter(isStaying)) await ctx.retire('deployment', deployment.meta.id);
      const released = world.slots.length === 0 && deployments.length === 0;
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
  return { observed: observe(world, now), conditions: conditionsOf(world, now), next: nextOf(world, unreadyLeft) };
}

/**
 * Notifies the users who may see the application when it stops serving by itself, and when it serves again. Not when
 * its server is away: the server's controller notifies once of that.
 */
async function notifyUsers(world: World, ctx: Context): Promise<void> {
  const { app } = world;
  const before = app.observed;
  const { phase, reason, message } = stateOf(world);
  const isLost = before?.phase === 'running' && phase === 'error' && reason !== 'ServerOffline';
  const wasAway = before?.conditions.some((it) => it.type === 'Ready' && it.reason === 'ServerOffline') ?? false;
  const isBack = before?.phase === 'error' && phase === 'running' && !wasAway;
  if (!isLost && !isBack) return;
  await ctx.notify(app, `${app.meta.id}/${phase}/${app.meta.observedRevision ?? 0}`, {
    type: isBack ? 'application_recovered' : 'application_error',
    severity: isBack ? 'info' : 'error',
    title: isBack ? `${app.desired.name} serves again` : `${app.desired.name} does not serve any more`,
    message,
  });
}

function nextOf(world: World, unreadyLeft: number | undefined): Next {
  const now = stateOf(world);
  const { app, target } = world;
  const because = awaited(world, now);
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
      if (unreadyLeft !== undefined && unreadyLeft > 0) return { again: unreadyLeft, because };
      return { waitingFor: instances(world), because };
    case 'Deleting':
    case 'Stopping':
      return { waitingFor: instances(world), because };
    default:
      return isChanging(world) ? { waitingFor: instances(world), because } : { settled: true };
  }
}

function instances(world: World): Ref[] {
  return world.slots.map((it) => ({ kind: 'assignment', id: it.meta.id }));
}
