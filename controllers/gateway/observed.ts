import type { WireReport } from '../../agent-protocol/assignment.ts';
import { isTaskType } from '../../agent-protocol/task-types.ts';
import { defined } from '../../store/defined.ts';
import type { ConditionInput, Observed, ReadonlyResource } from '../../store/resource.ts';
import type { ObservedOf } from '../../store/kinds/kinds.ts';
import { derive } from '../runtime/conditions.ts';
import type { Unsendable } from './projection.ts';

type Assignment = ReadonlyResource<'assignment'>;
type State = ObservedOf<'assignment'>;

/** The observed state of an assignment after the report; `undefined`: it stays as it is. Pure. */
export function observedOf(it: Assignment, report: WireReport, now: Date): Observed<State> | undefined {
  if (report.unknown === true || (report.gone === true && hasEnded(it, report.generation))) return undefined;
  const state = report.gone === true ? withoutContainer(it) : stateOf(report);
  const last = report.events?.items.at(-1);
  const seen = last === undefined ? it.observed?.events_seen : { source: report.events?.source ?? '', seq: last.seq };
  return stamped(it, withEvents(state, seen), report.generation, now);
}

/**
 * The observed state of an assignment that is not sent to its agent. An instance that was last seen alive keeps its
 * phase, since its agent goes on with the generation before; it is not ready for this generation. Pure.
 */
export function notSent(it: Assignment, why: Unsendable, now: Date): Observed<State> {
  const error = { code: why.code, message: why.message };
  const none: State = { phase: 'failed', ready: false, stable: false, restarts: 0, crash_loop: false };
  const state: State = { ...(lastOfLive(it) ?? none), ready: false, stable: false, error };
  return stamped(it, withEvents(state, it.observed?.events_seen), it.meta.generation, now);
}

/** The last observed state of an instance, unless it had ended by then. */
function lastOfLive({ desired, observed }: Assignment): State | undefined {
  if (observed === undefined || desired.spec.type !== 'service') return undefined;
  const { phase, ready, stable, container_id, image_digest, restarts, crash_loop, started_at } = observed;
  if (['stopped', 'failed', 'succeeded', 'lost'].includes(phase)) return undefined;
  return defined({ phase, ready, stable, container_id, image_digest, restarts, crash_loop, started_at });
}

function withEvents(state: State, seen: State['events_seen']): State {
  return seen === undefined ? state : { ...state, events_seen: { ...seen } };
}

/** Phases in which a task, or the copy of a volume, has progress. */
const progressing: ReadonlySet<State['phase']> = new Set(['running', 'preparing']);

function stateOf(report: WireReport): State {
  const {
    id: _id,
    generation: _generation,
    gone: _gone,
    unknown: _unknown,
    events: _events,
    progress,
    ...state
  } = report;
  return progress !== undefined && progressing.has(report.phase) ? { ...state, progress } : state;
}

/**
 * Whether the end of a task is stored: that its agent has nothing of it any more then changes nothing. What was lost
 * stays so with its reason, but for another attempt.
 */
function hasEnded({ desired, observed }: Assignment, generation: number): boolean {
  if (!isTaskType(desired.spec.type) || observed === undefined) return false;
  if (observed.phase === 'lost') return observed.observedGeneration >= generation;
  return observed.phase === 'succeeded' || observed.phase === 'failed';
}

/** The state of a desired assignment of which the agent has nothing: a task is lost, all else is pending. */
function withoutContainer(it: Assignment): State {
  const phase = isTaskType(it.desired.spec.type) ? 'lost' : 'pending';
  return { phase, ready: false, stable: false, restarts: 0, crash_loop: false };
}

function stamped(it: Assignment, state: State, generation: number, now: Date): Observed<State> {
  const conditions = derive(it.observed?.conditions ?? [], [readiness(state)], { settled: true }, { generation, now });
  return { ...state, observedGeneration: generation, conditions };
}

const reasons = {
  pending: 'Pending',
  preparing: 'Preparing',
  starting: 'Starting',
  running: 'NotReady',
  stopping: 'Stopping',
  stopped: 'Stopped',
  succeeded: 'Succeeded',
  failed: 'Failed',
  lost: 'Lost',
} as const satisfies Record<State['phase'], string>;

function readiness(state: State): ConditionInput {
  if (state.ready) return { type: 'Ready', status: 'true', reason: 'Ready', message: '' };
  const reason = state.crash_loop ? 'CrashLoop' : reasons[state.phase];
  return { type: 'Ready', status: 'false', reason, message: state.error?.message ?? '' };
}
