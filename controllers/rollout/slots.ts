import type { FailureCode } from '../../agent-protocol/failure-codes.ts';
import type { DesiredOf } from '../../store/kinds/kinds.ts';
import { isStaying } from '../../store/resource.ts';
import type { ReadonlyResource } from '../../store/resource.ts';
import { upToDate } from '../runtime/up-to-date.ts';

const volumeInUse: FailureCode = 'volume_in_use';

export type Assignment = ReadonlyResource<'assignment'>;

export function isService({ desired }: Assignment): boolean {
  return desired.spec.type === 'service';
}

/** The index of an instance within its version; -1 for a task. */
export function slotOf(it: Assignment): number {
  return it.desired.spec.type === 'service' ? it.desired.spec.slot : -1;
}

export function restartTokenOf(it: Assignment): string | undefined {
  return it.desired.spec.type === 'service' ? it.desired.spec.restart_token : undefined;
}

export function isWanted(it: Assignment): boolean {
  return it.desired.run === 'running' && isStaying(it);
}

/** Ready, or come to an end that is a success. */
export function isReady(it: Assignment): boolean {
  return isWanted(it) && (upToDate(it)?.ready === true || isDone(it));
}

/** Whether its process has come to an end that is a success, after which its restart policy does not start it again. */
export function isDone(it: Assignment): boolean {
  return isService(it) && upToDate(it)?.phase === 'succeeded';
}

/** Whether its process has failed, after which its restart policy does not start it again. */
export function isFailed(it: Assignment): boolean {
  const { spec } = it.desired;
  const { phase, last_exit: last, exit_code: code } = upToDate(it) ?? {};
  const hasRun = last !== undefined || code !== undefined;
  return spec.type === 'service' && spec.restart_policy === 'no' && phase === 'failed' && hasRun;
}

/**
 * Whether the last report says that it is ready, also one on an earlier record: its container stays, and ports lead to
 * it, until the agent has received the present one.
 */
export function isSeenReady(it: Assignment): boolean {
  return isWanted(it) && it.observed?.ready === true;
}

/** Whether it is known not to be ready: a report on an earlier record does not show that. */
export function isUnready(it: Assignment): boolean {
  return it.observed === undefined || (upToDate(it)?.ready === false && !isDone(it));
}

/** Whether its container is the one of these settings; a restart and what a running container follows do not count. */
export function isMadeAs(it: Assignment, desired: DesiredOf<'assignment'>): boolean {
  return it.desired.spec_hash === desired.spec_hash;
}

/** Whether it has stayed ready: an instance that starts well and then fails does not count as a success. */
export function isStable(it: Assignment): boolean {
  return isReady(it) && (it.observed?.stable === true || isDone(it));
}

/** Whether its image is on the server, so that a container was made of it or can be. */
export function hasImage(it: Assignment): boolean {
  const { phase } = upToDate(it) ?? {};
  return phase === 'starting' || phase === 'running' || isDone(it);
}

/** Whether its container was made: its image and its network were there, and no other instance has its volume. */
export function isStarted(it: Assignment): boolean {
  return hasImage(it) && !isDone(it) && upToDate(it)?.error?.code !== volumeInUse;
}

export function isCrashLooping(it: Assignment): boolean {
  return upToDate(it)?.crash_loop === true;
}

/** Whether the instance may be running: it is desired, or not reported as ended. Without a report it counts as live. */
export function isLive(it: Assignment): boolean {
  const report = upToDate(it);
  if (isWanted(it) || report === undefined) return true;
  return !['stopped', 'failed', 'succeeded'].includes(report.phase);
}

/** Whether no port leads to the instance any more and it only runs on until its open connections have ended. */
export function isDraining(it: Assignment): boolean {
  return !isWanted(it) && upToDate(it)?.draining === true;
}

/** The instances of a version that shall run and are within the number of replicas. */
export function wantedOf(slots: readonly Assignment[], version: string, replicas: number): Assignment[] {
  return slots.filter((it) => it.desired.version === version && isWanted(it) && slotOf(it) < replicas);
}
