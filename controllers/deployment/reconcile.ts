import type { Context, Controller, Next, Verdict } from '../runtime/controller.ts';
import { mountedBy, uncopied, uncopiedPart } from '../rollout/mounted.ts';
import type { Health } from '../rollout/health.ts';
import { healthOfAll, isOfAny, servicesOf } from '../rollout/services.ts';
import { isDraining, isLive, isService } from '../rollout/slots.ts';
import { onChange, onChild } from '../runtime/wakes.ts';
import { hasDeploymentEnded, isUnread } from '../../store/kinds/application.ts';
import { assignmentId } from '../../store/kinds/assignment-id.ts';
import { buildRole, isToBuild } from '../../store/kinds/composed-service.ts';
import type { ObservedOf } from '../../store/kinds/kinds.ts';
import { resolveReferences } from '../../store/referable.ts';
import { releaseOf } from '../../store/kinds/release-settings.ts';
import { isStaying } from '../../store/resource.ts';
import type { ConditionInput, ReadonlyResource } from '../../store/resource.ts';
import { perform } from '../rollout/actions.ts';
import { awaitedOf } from '../rollout/waiting.ts';
import { hasBegun, patienceMs, taskOf } from '../task/task.ts';
import { plan } from './plan.ts';
import type { Deployment, World } from './states.ts';
import { advance, awaited, buildTasks, isBeingBuilt, noReplicas, servicesIn, waitsForTurn } from './states.ts';

/** What a reference stands for is looked for again after that time, while it is being made. In milliseconds. */
const referenceLookMs = 1000;

/** A world without what the clocks of the leader say. */
type Found = Omit<World, 'expired' | 'isUnhealthy'>;

export interface DeploymentSettings {
  /** How long a deployment may wait for its server, and there for its turn to be built. */
  queueDeadlineMs: number;
  /** Longest time of one build, from its begin. */
  buildDeadlineMs: number;
  /** Longest time from the image until an instance is stable, and from one to the next. */
  rolloutDeadlineMs: number;
}

/** Leads a deployment from its request to its end: build, image, success or failure. The application rolls it out. */
export function deploymentController(settings: DeploymentSettings): Controller<'deployment'> {
  return {
    name: 'deployment',
    kind: 'deployment',
    reads: ['application', 'database', 'assignment', 'server', 'volume', 'operation'],
    children: ['assignment', 'operation'],
    notifies: ['deployment_failed', 'deployment_succeeded'],
    wakes: [
      // A deployment depends on its own assignments, and on the instances of other deployments that it replaces.
      onChild('assignment', ({ desired }, view) => {
        const newest = view.get('application', desired.workload_id)?.desired.deployment_id;
        return newest === undefined ? [desired.version] : [desired.version, newest];
      }),
      // What reads its compose file.
      onChild('operation', ({ desired }) => (desired.deployment_id === undefined ? [] : [desired.deployment_id])),
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
      // instances of services go on while another deployment has the service: the application ends them
      const left = ctx.view
        .by('assignment', 'version', it.meta.id)
        .filter((one) => it.desired.services === undefined || !isService(one));
      for (const { meta } of left.filter(isStaying)) await ctx.retire('assignment', meta.id);
      return { ...verdict, released: left.length === 0 };
    },
  };

  async function step(it: Deployment, ctx: Context): Promise<Verdict<'deployment'>> {
    const found = readWorld(it, ctx);
    const health = healthOfAll(found.slots, servicesIn(found));
    // Each further instance that is stable is progress: the clocks of the rollout begin anew.
    if (health.stable > (it.observed?.stable_instances ?? 0))
      for (const name of ['deploying', healthy]) ctx.since(name, false);
    const healthyLeft = leftToBeHealthy(found, health, ctx);
    const phaseLeft = remaining(found, ctx);
    const world: World = { ...found, expired: phaseLeft <= 0, isUnhealthy: healthyLeft <= 0 };
    const left = Math.min(phaseLeft, healthyLeft);
    const now = advance(world);
    await perform(ctx, plan(world, now, settings.buildDeadlineMs));
    if (now.phase === 'queued' && isUnread(it.desired) && isStaying(it)) await beginReading(it, ctx);
    if (now.phase !== (it.observed?.phase ?? 'queued')) await announce(world, now, ctx);
    return { observed: now, conditions: [readyCondition(now, world)], next: nextOf(it, now, left, world) };
  }

  /** Milliseconds until the deadline of its phase; infinite once it has ended, and while it is held. */
  function remaining(found: Found, ctx: Context): number {
    const left = clocksOf(found).map(({ name, isOn, deadline }) => {
      const lasted = ctx.since(name, isOn);
      return isOn ? deadline - lasted : Number.POSITIVE_INFINITY;
    });
    return Math.min(...left);
  }

  /**
   * At most one of them is on. A build has its whole time from its begin, however long its server let it wait for others.
   * The deadline of a rollout counts from its last progress; it is never shorter than what the application asks for.
   */
  function clocksOf(found: Found): Clock[] {
    const { deployment, application } = found;
    const phase = deployment.observed?.phase ?? 'queued';
    const tasks = buildTasks(found);
    const begun = tasks.filter(hasBegun).length;
    const isBuilding = phase === 'building' && isBeingBuilt(found);
    const waits = phase === 'queued' || (phase === 'building' && !isBuilding);
    const asked = (application?.desired.healthy_deadline ?? 0) * 1000;
    return [
      { name: 'queued', isOn: waits, deadline: settings.queueDeadlineMs },
      ...tasks.map((_, nth) => ({
        name: `build ${nth + 1}`,
        isOn: isBuilding && begun === nth + 1,
        deadline: patienceMs(settings.buildDeadlineMs),
      })),
      {
        name: 'deploying',
        isOn: phase === 'deploying' && !isHeld(found),
        deadline: Math.max(settings.rolloutDeadlineMs, asked),
      },
    ];
  }
}

/** A time that a deployment may stay as it is, in milliseconds. */
interface Clock {
  name: string;
  isOn: boolean;
  deadline: number;
}

/** The clock of the instances that are becoming stable. */
const healthy = 'healthy';

/** Milliseconds that its instances have left to become stable; infinite while none of them has started. */
function leftToBeHealthy(found: Found, { isComing }: Health, ctx: Context): number {
  const isOn = found.deployment.observed?.phase === 'deploying' && isComing && found.serverAway === undefined;
  const lasted = ctx.since(healthy, isOn);
  if (!isOn) return Number.POSITIVE_INFINITY;
  return releaseOf(found.application?.desired ?? {}).healthyDeadline * 1000 - lasted;
}

/**
 * Whether it waits for the copy of a volume, which may wait for its user: the time for its rollout begins after that.
 * Where the server is away or cannot make the copy, the deadline counts.
 */
function isHeld({ mounted, serverAway }: Found): boolean {
  return serverAway === undefined && uncopied(mounted)?.isWaiting === true;
}

/** Time that a compose file in a repository has to be read, once the agent of the server is connected. */
const readSeconds = 40;

function readingOf({ meta }: Pick<Deployment, 'meta'>): string {
  return assignmentId.task(meta.id, 'compose');
}

async function beginReading(it: Deployment, ctx: Context): Promise<void> {
  const { application_id, project_id, server_id, triggered_by, queued_at } = it.desired;
  await ctx.ensure(
    'operation',
    readingOf(it),
    {
      type: 'compose',
      project_id,
      application_id,
      server_id,
      deployment_id: it.meta.id,
      ...(triggered_by !== undefined && { requested_by: triggered_by }),
      requested_at: queued_at,
      deadline_seconds: readSeconds,
    },
    it,
  );
}

/** The services of its compose file that are to be built, and the task of each. */
function buildsOf({ meta, desired }: Deployment, ctx: Context): Found['builds'] {
  const built = (desired.services ?? []).filter(isToBuild);
  return new Map(
    built.map((composed) => [composed.name, { composed, task: taskOf(ctx.view, meta.id, buildRole(composed.name)) }]),
  );
}

function readWorld(it: Deployment, ctx: Context): Found {
  const instances = ctx.view.by('assignment', 'workload', it.desired.application_id).filter(isService);
  const server = ctx.view.get('server', it.desired.server_id);
  const application = ctx.view.get('application', it.desired.application_id);
  const services = servicesOf(application ?? noReplicas, it);
  return {
    deployment: it,
    application,
    resolution: resolutionOf(it, ctx),
    mounted: mountedBy(application, ctx.view),
    serverAway: awayOf(server),
    serverGone: !isStaying(server),
    build: taskOf(ctx.view, it.meta.id, 'build'),
    builds: buildsOf(it, ctx),
    reading: ctx.view.get('operation', readingOf(it)),
    slots: instances.filter((one) => isOfAny(one, services)),
    olderLive: instances.some(
      (other) =>
        services.some(({ name }) => name === other.desired.service) &&
        !isOfAny(other, services) &&
        isLive(other) &&
        !isDraining(other),
    ),
    now: ctx.clock.now().toISOString(),
  };
}

/** Every deployment resolves anew, a rollback too: where another object is reached is no setting of the application. */
function resolutionOf({ desired, observed }: Deployment, { view }: Context): World['resolution'] {
  const { references } = desired.config;
  if (references === undefined || observed?.references !== undefined) return undefined;
  return resolveReferences(view, desired.environment_id, references);
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

function readyCondition(now: ObservedOf<'deployment'>, world: World): ConditionInput {
  const { serverAway, mounted } = world;
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
    case 'queued': {
      const message = waitsForTurn(world) ? 'Its build waits for others on its server' : 'It waits for its server';
      return { type: 'Ready', status: 'false', reason: 'Queued', message };
    }
    case 'building':
      return { type: 'Ready', status: 'false', reason: 'Building', message: 'Its image is being built' };
    case 'deploying': {
      const seen = awaitedOf(world.slots);
      const message = `Its instances are being started${seen === undefined ? '' : `: ${seen}`}`;
      return { type: 'Ready', status: 'false', reason: 'RollingOut', message };
    }
  }
}

function nextOf(it: Deployment, now: ObservedOf<'deployment'>, left: number, world: World): Next {
  const because = awaited(now);
  if (because === undefined) return { settled: true };
  if (now.phase !== (it.observed?.phase ?? 'queued')) return { again: 0, because };
  const { resolution } = world;
  if (resolution !== undefined && 'comes' in resolution) return { again: referenceLookMs, because: resolution.comes };
  // Changes of its children wake it; the deadline is the fallback.
  if (Number.isFinite(left)) return { again: Math.max(left, 0), because };
  return { waitingFor: world.slots.map((slot) => ({ kind: 'assignment', id: slot.meta.id })), because };
}

function unfinished(deployments: readonly Deployment[]): string[] {
  return deployments
    .filter(({ observed }) => !hasDeploymentEnded(observed?.phase))
    .map((deployment) => deployment.meta.id);
}
