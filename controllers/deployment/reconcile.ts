import type { Context, Controller, Next, Verdict } from '../runtime/controller.ts';
import { mountedBy, uncopied, uncopiedPart } from '../rollout/mounted.ts';
import { isLive, isService } from '../rollout/slots.ts';
import { onChange, onChild } from '../runtime/wakes.ts';
import { hasDeploymentEnded } from '../../store/kinds/application.ts';
import type { ObservedOf } from '../../store/kinds/kinds.ts';
import { isStaying } from '../../store/resource.ts';
import type { ConditionInput, ReadonlyResource } from '../../store/resource.ts';
import { perform } from '../rollout/actions.ts';
import { patienceMs, taskOf } from '../task/task.ts';
import { plan } from './plan.ts';
import type { Deployment, World } from './states.ts';
import { advance, awaited } from './states.ts';

export interface DeploymentSettings {
  /** How long a deployment may wait for its server. */
  queueDeadlineMs: number;
  buildDeadlineMs: number;
  /** Longest time from the image until every instance is stable. */
  rolloutDeadlineMs: number;
}

/** Leads a deployment from its request to its end: build, image, success or failure. The application rolls it out. */
export function deploymentController(settings: DeploymentSettings): Controller<'deployment'> {
  const deadlines = {
    queued: settings.queueDeadlineMs,
    building: patienceMs(settings.buildDeadlineMs),
    deploying: settings.rolloutDeadlineMs,
  };

  return {
    name: 'deployment',
    kind: 'deployment',
    reads: ['application', 'assignment', 'server', 'volume'],
    children: ['assignment'],
    notifies: ['deployment_failed', 'deployment_succeeded'],
    wakes: [
      // A deployment depends on its own assignments, and on the instances of other deployments that it replaces.
      onChild('assignment', ({ desired }, view) => {
        const newest = view.get('application', desired.workload_id)?.desired.deployment_id;
        return newest === undefined ? [desired.version] : [desired.version, newest];
      }),
      // An application's pointer, run state and deletion end its unfinished deployments; its status does not matter.
      onChange(
        'application',
        ({ meta }) => meta.generation,
        ({ meta }, view) => unfinished(view.by('deployment', 'application', meta.id)),
      ),
      // The deletion of a server ends its unfinished deployments; while the server is away, they wait for it.
      onChange(
        'server',
        ({ meta, observed }) => [meta.deletionRequestedAt, observed?.phase],
        ({ meta }, view) => unfinished(view.by('deployment', 'server', meta.id)),
      ),
      // No instance is made before the volumes that it mounts are copied.
      onChange('volume', uncopiedPart, ({ meta }, view) =>
        view
          .by('application', 'volume', meta.id)
          .flatMap((app) => unfinished(view.by('deployment', 'application', app.meta.id))),
      ),
    ],
    reconcile: (it, ctx) => step(it, ctx),
    async finalize(it, ctx) {
      const verdict = await step(it, ctx);
      const left = ctx.view.by('assignment', 'version', it.meta.id);
      for (const { meta } of left.filter(isStaying)) await ctx.retire('assignment', meta.id);
      return { ...verdict, released: left.length === 0 };
    },
  };

  async function step(it: Deployment, ctx: Context): Promise<Verdict<'deployment'>> {
    const found = readWorld(it, ctx);
    const left = remaining(it, isHeld(found), ctx);
    const world: World = { ...found, expired: left <= 0 };
    const now = advance(world);
    await perform(ctx, plan(world, now, settings.buildDeadlineMs));
    if (now.phase !== (it.observed?.phase ?? 'queued')) await announce(world, now, ctx);
    return { observed: now, conditions: [readyCondition(now, world)], next: nextOf(it, now, left, world) };
  }

  /** Milliseconds until the deadline of its phase; infinite once it has ended, and while it is held. */
  function remaining(it: Deployment, held: boolean, ctx: Context): number {
    const phase = it.observed?.phase ?? 'queued';
    const left = Object.entries(deadlines).map(([name, deadline]) => {
      const isOn = name === phase && !(name === 'deploying' && held);
      const lasted = ctx.since(name, isOn);
      return isOn ? deadline - lasted : Number.POSITIVE_INFINITY;
    });
    return Math.min(...left);
  }
}

/**
 * Whether it waits for the copy of a volume, which may wait for its user: the time for its rollout begins after that.
 * Where the server is away or cannot make the copy, the deadline counts.
 */
function isHeld({ mounted, serverAway }: Omit<World, 'expired'>): boolean {
  return serverAway === undefined && uncopied(mounted)?.isWaiting === true;
}

function readWorld(it: Deployment, ctx: Context): Omit<World, 'expired'> {
  const assignments = ctx.view.by('assignment', 'version', it.meta.id);
  const server = ctx.view.get('server', it.desired.server_id);
  const application = ctx.view.get('application', it.desired.application_id);
  return {
    deployment: it,
    application,
    mounted: mountedBy(application, ctx.view),
    serverAway: awayOf(server),
    serverGone: !isStaying(server),
    build: taskOf(ctx.view, it.meta.id, 'build'),
    slots: assignments.filter(isService),
    olderLive: ctx.view
      .by('assignment', 'workload', it.desired.application_id)
      .some((other) => other.desired.version !== it.meta.id && isService(other) && isLive(other)),
    now: ctx.clock.now().toISOString(),
  };
}

async function announce(world: World, now: ObservedOf<'deployment'>, ctx: Context): Promise<void> {
  const { deployment, application } = world;
  const name = application?.desired.name ?? deployment.desired.application_id;
  const number = deployment.desired.number;
  const failed = now.phase === 'failed';
  const message = failed
    ? `Deployment ${number} failed: ${now.error?.message ?? 'no reason was recorded'}`
    : `Deployment ${number} ${now.phase === 'succeeded' ? 'succeeded' : `is ${now.phase}`}`;
  const reason = `Deployment${now.phase.charAt(0).toUpperCase()}${now.phase.slice(1)}`;
  const event = {
    type: failed ? ('warning' as const) : ('normal' as const),
    reason,
    about: deployment.meta.id,
    message,
  };
  ctx.event(deployment, event);
  if (application !== undefined) ctx.event(application, event);
  if (application === undefined || (!failed && now.phase !== 'succeeded')) return;
  await ctx.notify(application, `${deployment.meta.id}/${now.phase}`, {
    type: failed ? 'deployment_failed' : 'deployment_succeeded',
    severity: failed ? 'error' : 'info',
    title: failed ? `Deployment of ${name} failed` : `${name} was deployed`,
    message,
  });
}

function awayOf(server: ReadonlyResource<'server'> | undefined): World['serverAway'] {
  switch (server?.observed?.phase) {
    case 'offline':
      return 'offline';
    case 'error':
      return 'engine';
    default:
      return undefined;
  }
}

function readyCondition(now: ObservedOf<'deployment'>, { serverAway, mounted }: World): ConditionInput {
  if (!hasDeploymentEnded(now.phase) && serverAway !== undefined) {
    const what = serverAway === 'offline' ? 'its server, which does not answer' : 'the container engine of its server';
    return { type: 'Ready', status: 'false', reason: 'WaitingForServer', message: `It waits for ${what}` };
  }
  const copying = now.phase === 'deploying' ? uncopied(mounted) : undefined;
  if (copying !== undefined) {
    const message = `It waits for volume ${copying.name}: ${copying.why}`;
    return { type: 'Ready', status: 'false', reason: 'WaitingForVolume', message };
  }
  switch (now.phase) {
    case 'succeeded':
      return { type: 'Ready', status: 'true', reason: 'Succeeded', message: 'Every instance is ready' };
    case 'failed':
      return { type: 'Ready', status: 'false', reason: 'Failed', message: now.error?.message ?? 'It failed' };
    case 'cancelled':
      return { type: 'Ready', status: 'false', reason: 'Cancelled', message: 'It was cancelled' };
    case 'superseded':
      return { type: 'Ready', status: 'false', reason: 'Superseded', message: 'A newer deployment took its place' };
    case 'queued':
      return { type: 'Ready', status: 'false', reason: 'Queued', message: 'It waits for its server' };
    case 'building':
      return { type: 'Ready', status: 'false', reason: 'Building', message: 'Its image is being built' };
    case 'deploying':
      return { type: 'Ready', status: 'false', reason: 'RollingOut', message: 'Its instances are being started' };
  }
}

function nextOf(it: Deployment, now: ObservedOf<'deployment'>, left: number, world: World): Next {
  const because = awaited(now);
  if (because === undefined) return { settled: true };
  if (now.phase !== (it.observed?.phase ?? 'queued')) return { again: 0, because };
  // Changes of its children wake it; the deadline is the fallback.
  if (Number.isFinite(left)) return { again: Math.max(left, 0), because };
  return { waitingFor: world.slots.map((slot) => ({ kind: 'assignment', id: slot.meta.id })), because };
}

function unfinished(deployments: readonly Deployment[]): string[] {
  return deployments
    .filter(({ observed }) => !hasDeploymentEnded(observed?.phase))
    .map((deployment) => deployment.meta.id);
}
