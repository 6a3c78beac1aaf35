import { upToDate } from '../runtime/up-to-date.ts';
import { failureOf } from './failures.ts';
import type { Failure } from './failures.ts';
import { isCrashLooping, isDone, isReady, isStable, isStarted, slotOf, wantedOf } from './slots.ts';
import type { Assignment } from './slots.ts';

/** How the instances of one version of a workload are. */
export interface Health {
  /** The instances that shall run. */
  instances: readonly Assignment[];
  /** How many of them are ready. */
  ready: number;
  /**
   * How many of those that are not ready are covered: a ready instance of the version beyond the number of replicas
   * serves in their place (`plan.ts`). It makes the workload ready, and not the version a success.
   */
  covering: number;
  /** How many of them have stayed ready. */
  stable: number;
  /** The container of one was started, and it has not stayed ready yet. */
  isComing: boolean;
  /** How many are yet to become ready; 0: as many as desired are ready. */
  lacking: number;
  /** As many as desired are there, and every one has stayed ready: the version is a success. */
  isStable: boolean;
  /** The process of an instance keeps exiting. */
  isCrashLooping: boolean;
  /** What the agent reports of instances now; waiting may cure it. */
  errors: readonly Failure[];
  /** Instances that will not become ready as they are, and why. */
  failures: readonly { of: Assignment; failure: Failure }[];
}

/** Returns how the instances of a version are. Only reports on what is desired now count. Pure. */
export function healthOf(slots: readonly Assignment[], version: string, replicas: number): Health {
  const instances = wantedOf(slots, version, replicas);
  const ready = instances.filter(isReady).length;
  const lacking = Math.max(0, replicas - ready);
  const beyond = slots.filter((it) => it.desired.version === version && slotOf(it) >= replicas);
  return {
    instances,
    ready,
    covering: Math.min(lacking, beyond.filter((it) => isReady(it) && !isDone(it)).length),
    stable: instances.filter(isStable).length,
    isComing: instances.some((it) => !isStable(it) && isStarted(it)),
    lacking,
    isStable: instances.length >= replicas && instances.every(isStable),
    isCrashLooping: instances.some(isCrashLooping),
    errors: instances.flatMap((it) => upToDate(it)?.error ?? []),
    failures: instances.flatMap((of) => {
      const failure = failureOf(of);
      return failure === undefined ? [] : [{ of, failure }];
    }),
  };
}
