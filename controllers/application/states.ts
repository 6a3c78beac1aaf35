import { defined } from '../../store/defined.ts';
import type { ApplicationPhase } from '../../store/kinds/application.ts';
import type { ObservedOf } from '../../store/kinds/kinds.ts';
import type { ServerPhase } from '../../store/kinds/server.ts';
import { isStaying } from '../../store/resource.ts';
import type { ConditionInput } from '../../store/resource.ts';
import type { Because } from '../runtime/controller.ts';
import { agentTooOld, hasCode } from '../rollout/failures.ts';
import { upToDate } from '../runtime/up-to-date.ts';
import { uncopied } from '../rollout/mounted.ts';
import type { Health } from '../rollout/health.ts';
import { hindrance } from './hindrance.ts';
import { instanceDesired } from './instance.ts';
import { isAwaitingAgent } from '../server/states.ts';
import { loopMessage } from '../rollout/last-exit.ts';
import { notesOf } from '../rollout/notes.ts';
import { awaitedOf } from '../rollout/waiting.ts';
import { healthOfAll, isOfAny, servicesOf } from '../rollout/services.ts';
import {
  isCrashLooping,
  isDone,
  isDraining,
  isFailed,
  isLive,
  isMadeAs,
  isSeenReady,
  restartTokenOf,
  slotOf,
} from '../rollout/slots.ts';
import type { Assignment } from '../rollout/slots.ts';
import type { Deployment, World } from './world.ts';
import { isActive } from './world.ts';

/**
 * The phase of an application and why. `ready`: as many instances as desired are ready with the desired revision, or others
 * of it serve in their place.
 */
export interface State {
  phase: ApplicationPhase;
  ready: ConditionInput['status'];
  reason: string;
  message: string;
}

/**
 * The phase table. Pure: it follows from the application, its deployments, instances and server. It uses the phase
 * observed before only to distinguish a short failure from a start.
 */
export function stateOf(world: World): State {
  const { app, target, serving, server } = world;
  if (!isStaying(app)) return state('deleting', 'false', 'Deleting', 'Instances and deployments are being removed');
  if (app.desired.run === 'stopped') return stoppedState(world);
  if (target === undefined && serving === undefined)
    return state('stopped', 'false', 'NeverDeployed', 'It was never deployed: deploy it');
  if (target !== undefined && isActive(target)) return deployingState(target, world);
  if (serving === undefined) return withoutSuccess(target);
  if (server === undefined)
    return state(
      'error',
      'unknown',
      'ServerGone',
      'Its server was deleted: create the application anew on another server',
    );
  if (server.observed?.phase === 'offline')
    return state(
      'error',
      'unknown',
      'ServerOffline',
      'Its server does not answer, so it is not known what runs there: see the conditions of the server',
    );
  if (server.observed?.phase === 'error')
    return state(
      'error',
      'unknown',
      'EngineNotReady',
      `${engineAway}, so it is not known what runs there: see the conditions of the server`,
    );
  return servingState(world, serving);
}

const engineAway = 'The container engine of its server does not answer';

function stoppedState(world: World): State {
  // an agent that joins later starts nothing that was stopped before
  const isReceived = world.server === undefined || !isAwaitingAgent(world.server);
  if (!isReceived || !world.slots.some(isLive)) {
    return world.target === undefined
      ? state('stopped', 'false', 'NeverDeployed', 'It was never deployed: deploy it')
      : state('stopped', 'false', 'Stopped', 'It is stopped, as desired');
  }
  if (world.server?.observed?.phase === 'offline')
    return state(
      'error',
      'unknown',
      'ServerOffline',
      'Its server does not answer, so it is not known whether it stopped: see the conditions of the server',
    );
  if (world.server?.observed?.phase === 'error')
    return state(
      'error',
      'unknown',
      'EngineNotReady',
      `${engineAway}, so it is not known whether it stopped: see the conditions of the server`,
    );
  return state('running', 'false', 'Stopping', 'Instances are being stopped');
}

/** A deployment that waits for its server goes on by itself; the server's conditions show what to do. */
function deployingState(target: Deployment, world: World): State {
  const { server, mounted } = world;
  const number = `Deployment ${target.desired.number}`;
  if (server?.observed?.phase === 'offline')
    return state('deploying', 'unknown', 'WaitingForServer', `${number} waits for its server, which does not answer`);
  if (server?.observed?.phase === 'error')
    return state('deploying', 'unknown', 'WaitingForServer', `${number} waits for the container engine of its server`);
  const copying = target.observed?.phase === 'deploying' ? uncopied(mounted) : undefined;
  if (copying !== undefined)
    return state(
      'deploying',
      'false',
      'WaitingForVolume',
      `${number} waits for volume ${copying.name}: ${copying.why}`,
    );
  switch (target.observed?.phase) {
    case 'building':
      return state('deploying', 'false', 'Building', `${number} is being built`);
    case 'deploying':
      return state('deploying', 'false', 'RollingOut', `${number} is being rolled out${waitFor(target, world)}`);
    default:
      return state('deploying', 'false', 'Queued', `${number} is queued`);
  }
}

/** `: `, and what its instances are waited for; empty as long as nothing is amiss with them. */
function waitFor(target: Deployment, { app, slots }: World): string {
  const seen = awaitedOf(healthOfAll(slots, servicesOf(app, target)).instances);
  return seen === undefined ? '' : `: ${seen}`;
}

function withoutSuccess(target: Deployment | undefined): State {
  if (target?.observed?.phase === 'failed') return state('failed', 'false', 'DeploymentFailed', failureMessage(target));
  return state(
    'stopped',
    'false',
    'DeploymentCancelled',
    'The deployment was cancelled, and no earlier one succeeded: deploy again',
  );
}

function servingState(world: World, serving: Deployment): State {
  const health = servingHealth(world, serving);
  return (
    endedState(health) ??
    (health.lacking === health.covering ? servedState(world, serving, health) : lackingState(world, serving, health))
  );
}

/** The state of an application of which every instance is ready, or another one serves in its place. */
function servedState(world: World, serving: Deployment, { instances, lacking, isCrashLooping }: Health): State {
  const { target } = world;
  // a process that keeps exiting is in trouble also while it is ready for a moment
  if (isCrashLooping) return state('running', 'false', 'CrashLoop', loopMessage(instances));
  const why = lacking === 0 ? '' : whyUnready(world, instances);
  if (why === '' && target?.observed?.phase === 'failed')
    return state('running', 'false', 'RolloutFailed', failureMessage(target));
  if (lacking === 0) return state('running', 'true', 'Running', 'Every instance is ready');
  const some = `${lacking} of ${replicasOf(world, serving)} instances are not ready yet`;
  const message = `${some}, and others serve in their place${why}`;
  return why === '' ? state('running', 'true', 'Covered', message) : state('running', 'false', 'Degraded', message);
}

function lackingState(world: World, serving: Deployment, { instances, ready, covering, ...health }: Health): State {
  const why = whyUnready(world, instances);
  if (isAnswering(mainHealth(world, serving))) {
    const all = replicasOf(world, serving);
    return state('running', 'false', 'Degraded', `${ready + covering} of ${all} instances are ready${why}`);
  }
  if (instances.some((it) => hasCode(upToDate(it)?.error, 'data_lost')))
    return state('error', 'false', 'VolumeLost', `No instance can start${why}`);
  if (health.isCrashLooping)
    return state(isReadyAtTimes(world) ? 'running' : 'error', 'false', 'CrashLoop', loopMessage(instances));
  if (world.unreadyTooLong) return state('error', 'false', 'NoReadyInstance', `No instance has become ready${why}`);
  switch (world.app.observed?.phase) {
    case 'running':
      return state('running', 'false', 'NoReadyInstance', `No instance is ready at the moment${why}`);
    case 'error':
      return state('error', 'false', 'NoReadyInstance', `No instance has become ready${why}`);
    default:
      return state('deploying', 'false', 'Starting', `Instances are starting${why}`);
  }
}

/** `: `, and why instances are not ready; empty if no reason is known. */
function whyUnready(world: World, instances: readonly Assignment[]): string {
  return hindrance(instances, world.mounted) + ofBuildAgain(world, instances);
}

/** Why an image that is gone from the server could not be built again; empty if that is not so. */
function ofBuildAgain({ target }: World, instances: readonly Assignment[]): string {
  const isLost = instances.some((it) => hasCode(upToDate(it)?.error, 'image_not_found'));
  return isLost && target?.observed?.phase === 'failed' ? `. ${failureMessage(target)}` : '';
}

/** The state of an application whose processes have come to an end that is meant; `undefined` while one runs or shall run. */
function endedState({ instances, lacking, covering }: Health): State | undefined {
  const [first] = instances;
  if (first === undefined || covering > 0 || !instances.every((it) => isDone(it) || isFailed(it))) return undefined;
  const failed = instances.find(isFailed);
  if (failed === undefined) return lacking > 0 ? undefined : state('stopped', 'false', 'Completed', endOf(first));
  const lines = failed.observed?.last_exit?.lines;
  return state('failed', 'false', 'Exited', lines === undefined ? endOf(failed) : `${endOf(failed)}: ${lines}`);
}

function endOf({ desired: { spec }, observed }: Assignment): string {
  const code = observed?.exit_code;
  const policy = spec.type === 'service' && spec.restart_policy !== 'no' ? spec.restart_policy : 'never';
  const how = code === undefined ? '' : ` with code ${code}`;
  return `Its process ended${how}, after which restart_policy ${policy} does not start it again`;
}

/** Whether what keeps exiting was ready between two exits not long ago. */
function isReadyAtTimes({ app: { observed }, unreadyTooLong }: World): boolean {
  const before = observed?.conditions.find(({ type }) => type === 'Ready')?.reason;
  return observed?.phase === 'running' && before === 'CrashLoop' && !unreadyTooLong;
}

/** Whether the phase depends on how long no instance has been ready; `reconcile.ts` keeps that clock. */
export function isUnready(world: Omit<World, 'unreadyTooLong'>): boolean {
  const { app, target, serving } = world;
  if (app.desired.run === 'stopped' || serving === undefined || !isStaying(app)) return false;
  if (target !== undefined && isActive(target)) return false;
  const health = mainHealth(world, serving);
  return app.desired.replicas > 0 && !isAnswering(health) && !health.instances.some(isFailed);
}

/** Whether one of these instances is ready, or another one serves in its place. */
function isAnswering({ ready, covering }: Health): boolean {
  return ready + covering > 0;
}

/** How the instances of the service that requests are for are. */
function mainHealth({ slots, app }: Pick<World, 'slots' | 'app'>, serving: Deployment): Health {
  return healthOfAll(slots, servicesOf(app, serving).slice(0, 1));
}

/** Instances of all services. */
function replicasOf({ app }: Pick<World, 'app'>, serving: Deployment): number {
  return servicesOf(app, serving).reduce((sum, it) => sum + it.replicas, 0);
}

function servingHealth({ slots, app }: Pick<World, 'slots' | 'app'>, serving: Deployment): Health {
  return healthOfAll(slots, servicesOf(app, serving));
}

/**
 * Whether instances still change although enough are ready: some are yet to be restarted or to get other mounts, or
 * instances that are not desired have not ended.
 */
export function isChanging(world: World): boolean {
  const { app, serving, server } = world;
  if (app.desired.run === 'stopped' || serving === undefined) return false;
  const wanted = servingHealth(world, serving).instances;
  const services = servicesOf(app, serving);
  const isOutdated = (it: Assignment): boolean => {
    const service = services.find(({ name }) => name === it.desired.service);
    if (service === undefined) return false;
    const { restartToken } = service;
    if (restartTokenOf(it) !== restartToken) return true;
    if (server === undefined) return false;
    return !isMadeAs(
      it,
      instanceDesired({ app, deployment: serving, server, service, slot: slotOf(it), restartToken }),
    );
  };
  return wanted.some(isOutdated) || world.slots.some((it) => isLive(it) && !isDraining(it) && !wanted.includes(it));
}

/** What an application that is not settled waits for. */
export function awaited(world: World, now: State): Because {
  const { app, target, serving } = world;
  switch (now.reason) {
    case 'Queued':
    case 'Building':
    case 'RollingOut':
    case 'WaitingForServer':
    case 'WaitingForVolume':
      return `deployment ${target?.desired.number ?? ''} to end`;
    case 'ServerOffline':
      return 'its server to answer';
    case 'EngineNotReady':
      return 'the container engine of its server to answer';
    case 'Deleting':
      return 'its instances and deployments to be gone';
    case 'Stopping':
      return 'its instances to stop';
    default: {
      const replicas = serving === undefined ? app.desired.replicas : replicasOf(world, serving);
      const lacking = serving === undefined ? replicas : servingHealth(world, serving).lacking;
      if (lacking === 0) return 'its instances to be replaced one after another';
      return `${lacking} of ${replicas} instances to become ready`;
    }
  }
}

function failureMessage(target: Deployment): string {
  return `Deployment ${target.desired.number} failed: ${target.observed?.error?.message ?? 'no reason was recorded'}`;
}

/** The observed value that follows from the world: counters count each failure once. */
export function observe(world: World, now: State): ObservedOf<'application'> {
  const { target, serving } = world;
  const before = world.app.observed;
  const services = serving === undefined ? [] : servicesOf(world.app, serving);
  const crashing = world.slots.some((it) => isOfAny(it, services) && isCrashLooping(it));
  const healthy = now.reason === 'Running' || now.reason === 'Completed';
  const counted = target?.observed?.phase === 'failed' ? target.meta.id : before?.counted_deployment_id;
  const wasCrashing = before?.crash_loop_counted === true;
  const failures =
    (before?.consecutive_failures ?? 0) +
    Number(counted !== before?.counted_deployment_id) +
    Number(crashing && !wasCrashing);
  return defined({
    phase: now.phase,
    current_deployment_id: serving?.meta.id,
    current_commit: serving?.observed?.commit,
    consecutive_failures: healthy ? 0 : failures,
    ready_replicas: world.slots.filter((it) => isSeenReady(it) && isOfMain(it, serving ?? target)).length,
    counted_deployment_id: counted,
    crash_loop_counted: !healthy && (crashing || wasCrashing),
  });
}

/** Whether an instance, of any version, is of the service that requests are for. */
function isOfMain({ desired }: Assignment, deployment: Deployment | undefined): boolean {
  const [main] = deployment?.desired.services ?? [];
  return main === undefined || desired.service === main.name;
}

/** Conditions beside the ones that the runtime derives. */
export function conditionsOf(world: World, now: State): ConditionInput[] {
  const { server, target } = world;
  const ready = world.slots.filter((it) => isSeenReady(it) && isOfMain(it, world.serving ?? target)).length;
  const conditions: ConditionInput[] = [
    { type: 'Ready', status: now.ready, reason: now.reason, message: now.message },
    ready > 0
      ? { type: 'Available', status: 'true', reason: 'InstanceReady', message: 'At least one instance is ready' }
      : { type: 'Available', status: 'false', reason: 'NoReadyInstance', message: 'No instance is ready' },
  ];
  if (server?.observed !== undefined) conditions.push(reachability(server.observed.phase));
  // a worker has no port, whatever its image says
  const isWorker = world.app.desired.app_type === 'worker';
  conditions.push(...notesOf(world.slots).filter(({ type }) => !(isWorker && type === 'PortNotSet')));
  conditions.push(...agentTooOld([target?.observed?.error, ...world.slots.map((it) => upToDate(it)?.error)]));
  const outcome = target?.observed?.phase;
  if (target !== undefined && (outcome === 'succeeded' || outcome === 'failed')) {
    conditions.push({
      type: 'LastDeploymentSucceeded',
      status: outcome === 'succeeded' ? 'true' : 'false',
      reason: outcome === 'succeeded' ? 'Succeeded' : 'Failed',
      message: outcome === 'succeeded' ? `Deployment ${target.desired.number} succeeded` : failureMessage(target),
    });
  }
  return conditions;
}

function state(phase: ApplicationPhase, ready: State['ready'], reason: string, message: string): State {
  return { phase, ready, reason, message };
}

function reachability(phase: ServerPhase): ConditionInput {
  const type = 'ServerReachable';
  switch (phase) {
    case 'offline':
      return {
        type,
        status: 'false',
        reason: 'Offline',
        message: 'Its server does not answer: see the conditions of the server',
      };
    case 'provisioning':
      return { type, status: 'false', reason: 'AwaitingAgent', message: 'The agent of its server has not joined yet' };
    case 'active':
    case 'error':
      return { type, status: 'true', reason: 'Connected', message: 'Its server answers' };
  }
}
