import { defined } from '../../store/defined.ts';
import type { FunctionPhase } from '../../store/kinds/function.ts';
import type { ObservedOf } from '../../store/kinds/kinds.ts';
import { isDeleting } from '../../store/resource.ts';
import type { ConditionInput, ReadonlyResource } from '../../store/resource.ts';
import { agentTooOld } from '../rollout/failures.ts';
import type { Assignment } from '../rollout/slots.ts';
import type { Because } from '../runtime/controller.ts';
import { upToDate } from '../runtime/up-to-date.ts';
import { nextAfter } from './schedule.ts';
import type { Fired } from './schedule.ts';

export type Fn = ReadonlyResource<'function'>;
type Version = ReadonlyResource<'function_version'>;

/** What the phase of a function follows from. */
export interface World {
  function: Fn;
  /** The version that is to serve; absent: it was never deployed. */
  target: Version | undefined;
  /** The version that its server is told to serve: the target once it is built, or the one before. */
  wanted: Version | undefined;
  /** The version that serves, or would if it was started. */
  active: Version | undefined;
  /** No instance with the wanted version and the present settings has answered, and something else did before. */
  isUnproven: boolean;
  /** That the target was built and does not start. */
  refused: ObservedOf<'function'>['refused'];
  /** It was stopped, and nothing has served since. */
  isAtRest: boolean;
  /** It stays without instances, as it was stopped and the version that is to serve is not built or does not start. */
  isHeld: boolean;
  /** What its server has of it. */
  served: Assignment | undefined;
  /** That is of the wanted version with the present settings. */
  isAsWanted: boolean;
  /** The task by which its schedule calls it. */
  call: Assignment | undefined;
  /** Undefined: it was deleted, or is being deleted. */
  server: ReadonlyResource<'server'> | undefined;
}

export interface State {
  phase: FunctionPhase;
  ready: ConditionInput['status'];
  reason: string;
  message: string;
  /** What it waits for; absent: nothing. */
  because?: Because;
}

/** The phase table. Pure. */
export function stateOf(world: World): State {
  const { function: it, target, active, server } = world;
  if (isDeleting(it))
    return state('deleting', 'false', 'Deleting', 'Its instances are being removed', 'its instances to be gone');
  if (it.desired.run === 'stopped') return stoppedState(world);
  if (target === undefined && active === undefined)
    return state('stopped', 'false', 'NeverDeployed', 'It was never deployed: deploy it');
  if (world.isHeld && !isBuilding(target)) return heldState(world);
  if (server === undefined) {
    const message = 'Its server was deleted: create the function anew on another server';
    return state('error', 'unknown', 'ServerGone', message);
  }
  if (server.observed?.phase === 'offline' || server.observed?.phase === 'error') return awayState(world);
  if (isBuilding(target)) {
    const message = `Version ${target.desired.number} is being built`;
    return state('deploying', 'false', 'Building', message, 'its version to be built');
  }
  if (active === undefined) return state('failed', 'false', 'BuildFailed', failureOf(target));
  return servingState(world, active);
}

function isBuilding(target: Version | undefined): target is Version {
  return target !== undefined && (target.observed?.phase ?? 'building') === 'building';
}

function failureOf(target: Version | undefined): string {
  const why = target?.observed?.error?.message ?? 'no reason was recorded';
  return `Version ${target?.desired.number ?? ''} failed: ${why}`;
}

/** The version that was stopped is not what was asked for. */
function heldState({ target, refused }: World): State {
  const why =
    refused === undefined
      ? failureOf(target)
      : `Version ${target?.desired.number ?? ''} does not start: ${refused.message}`;
  const message = `${why}. The function stays stopped, as it was: deploy it again, or start it with the version before`;
  return state('stopped', 'false', 'VersionFailed', message);
}

function awayState({ active, target, isHeld }: World): State {
  const message = 'Its server does not answer, so it is not known whether it serves: see the conditions of the server';
  const phase = (active === undefined || isHeld) && isBuilding(target) ? 'deploying' : 'error';
  return state(phase, 'unknown', 'ServerAway', message, 'its server to answer');
}

function stoppedState({ served, target, active, server }: World): State {
  const isAtRest = served === undefined || upToDate(served)?.phase === 'stopped' || server === undefined;
  if (!isAtRest)
    return state('running', 'false', 'Stopping', 'Its instances are being stopped', 'its instances to be stopped');
  return target === undefined && active === undefined
    ? state('stopped', 'false', 'NeverDeployed', 'It was never deployed: deploy it')
    : state('stopped', 'false', 'Stopped', 'It is stopped, as desired');
}

function servingState({ function: it, served, target, isAsWanted, refused }: World, version: Version): State {
  const report = served && upToDate(served);
  const isServed = report?.ready === true && isAsWanted;
  const because = 'its server to serve it';
  if (refused !== undefined) {
    const why = `Version ${target?.desired.number ?? ''} does not start: ${refused.message}`;
    const [words, wait]: [string, Because?] = isServed ? ['serves on'] : ['is to serve on', because];
    return state('running', 'false', 'VersionFailed', `${why}. Version ${version.desired.number} ${words}`, wait);
  }
  if (isServed) return servedState(target, version, report.error?.message);
  if (report?.ready !== true && report?.error !== undefined) {
    const { code, message } = report.error;
    const why = version.observed?.phase === 'failed' ? `${message}. ${failureOf(version)}` : message;
    return state('error', 'false', code === 'port_taken' ? 'PortTaken' : 'NotServing', why, because);
  }
  const phase = it.observed?.phase === 'running' ? 'running' : 'deploying';
  return state(phase, 'false', 'Starting', 'Its server is about to serve it', because);
}

/** `fault`: why its server does not serve it with its present settings. */
function servedState(target: Version | undefined, version: Version, fault: string | undefined): State {
  if (fault !== undefined) {
    const why = `With its present settings no instance starts: ${fault}`;
    return state('running', 'false', 'NotStarted', `${why}. It serves with the ones before`, 'an instance to start');
  }
  return target !== undefined && target.meta.id !== version.meta.id
    ? state('running', 'false', 'VersionFailed', failureOf(target))
    : state('running', 'true', 'Serving', `Version ${version.desired.number} serves`);
}

function state(phase: FunctionPhase, ready: State['ready'], reason: string, message: string, because?: Because): State {
  return { phase, ready, reason, message, ...(because !== undefined && { because }) };
}

/** The observed value that follows from the world. `fired`: what its schedule led to; absent: it has none. */
export function observe(
  { function: it, active, refused, isAtRest }: World,
  now: State,
  fired: Fired | undefined,
): ObservedOf<'function'> {
  const { trigger } = it.desired;
  const isBroken = now.phase === 'error';
  const wasNotified = it.observed?.notified === true;
  const notified = isBroken || (wasNotified && now.phase !== 'running' && now.phase !== 'stopped');
  return defined({
    phase: now.phase,
    active_version_id: active?.meta.id,
    refused,
    at_rest: isAtRest ? (true as const) : undefined,
    notified: notified ? (true as const) : undefined,
    ...(fired !== undefined &&
      trigger.type === 'cron' && {
        handled_until: fired.handledUntil,
        next_run_at: fired.isIdle
          ? undefined
          : nextAfter({ expression: trigger.schedule, timezone: trigger.timezone }, fired),
        last_run_at: fired.lastRunAt,
        firing: fired.firing && defined({ ...fired.firing, missed: [...fired.firing.missed] }),
        missed: fired.missed.length === 0 ? undefined : [...fired.missed],
        is_idle: fired.isIdle ? (true as const) : undefined,
        rule: fired.rule,
      }),
  });
}

/** Conditions beside the ones that the runtime derives. */
export function conditionsOf({ served }: World, now: State): ConditionInput[] {
  return [
    { type: 'Ready', status: now.ready, reason: now.reason, message: now.message },
    ...agentTooOld([served && upToDate(served)?.error]),
  ];
}
