import type { z } from 'zod';
import type { TaskHead, TaskRow } from '../../agent-protocol/task-table.ts';
import type { TaskType } from '../../agent-protocol/task-types.ts';
import { resultIn, taskRow, taskTypes } from '../../agent-protocol/task-types.ts';
import { mainService } from '../../agent-protocol/workload.ts';
import { assignmentId } from '../../store/kinds/assignment-id.ts';
import type { StoredTask } from '../../store/kinds/assignment.ts';
import type { DesiredOf } from '../../store/kinds/kinds.ts';
import type { TenantView } from '../../store/mirror.ts';
import type { ReadonlyResource } from '../../store/resource.ts';
import type { Action } from '../rollout/actions.ts';
import { planOne } from '../rollout/actions.ts';
import type { Failure } from '../rollout/failures.ts';
import type { Assignment } from '../rollout/slots.ts';
import { upToDate } from '../runtime/up-to-date.ts';
import { taskHash } from './task-hash.ts';

/** Attempts in all of a task that is lost with its agent's state and may run again. */
const attemptsInAll = 3;

type Rows = typeof taskTypes;

/** What has become of a task, as its owner sees it. */
export type TaskState<Row extends TaskRow> = {
  /** The attempt that shall run: after a lost one the next, as long as attempts are left. */
  attempt: number;
  /** It was lost as often as it may be: no other attempt is made. */
  isExhausted: boolean;
} & (
  | { outcome: 'succeeded'; result: z.infer<Row['result']> }
  | { outcome: 'failed'; known: z.infer<Row['known']> | undefined; error: Failure }
  /** Its server does not know what became of the attempt, or, with `error`, that it must not be repeated by itself. */
  | { outcome: 'lost'; error: Failure | undefined }
  /** `absent`: it was not asked for yet. `waiting`: its server has not taken it up. `running`: also before its turn. */
  | { outcome: 'absent' | 'waiting' | 'running' }
);

/** What an owner wants of a task; the rest is decided here. */
export interface Wanted<T extends TaskType> {
  /** Where it runs, and what it belongs to. */
  place: Omit<DesiredOf<'assignment'>, 'spec' | 'spec_hash' | 'run' | 'service'>;
  /** What an attempt is to do. */
  spec: (head: TaskHead<T>) => Extract<StoredTask, { type: T }>;
  /** How long one attempt may last; absent: as the type says. */
  deadlineMs?: number;
}

/** The task that an object has in that role, such as the build of a deployment. */
export function taskOf(view: Pick<TenantView, 'get'>, owner: string, role: string): Assignment | undefined {
  return view.get('assignment', assignmentId.task(owner, role));
}

/** Returns what has become of a task. Pure. */
export function taskState<T extends TaskType>(type: T, task: Assignment | undefined): TaskState<Rows[T]> {
  return stateOf(taskTypes[type], task);
}

/** Whether its server has begun the attempt that shall run: one that it only took up waits there for its turn. */
export function hasBegun(task: Assignment | undefined): boolean {
  const phase = task && upToDate(task)?.phase;
  return phase !== undefined && phase !== 'pending';
}

function stateOf<Row extends TaskRow>(row: Row, task: Assignment | undefined): TaskState<Row> {
  if (task === undefined) return { outcome: 'absent', attempt: 1, isExhausted: false };
  const { spec } = task.desired;
  const attempt = 'attempt' in spec ? spec.attempt : 1;
  const report = upToDate(task);
  const present = { attempt, isExhausted: false };
  switch (report?.phase) {
    case 'succeeded': {
      const result = resultIn<Row['result']>(row, row.result, report);
      if (result !== undefined) return { ...present, outcome: 'succeeded', result };
      return { ...present, outcome: 'failed', known: undefined, error: unreadable(row) };
    }
    case 'failed': {
      const error = report.error ?? { code: row.codes.failed, message: `The ${row.noun} failed` };
      return { ...present, outcome: 'failed', known: resultIn<Row['known']>(row, row.known, report), error };
    }
    case 'lost': {
      const isExhausted = attempt >= attemptsOf(row);
      return { outcome: 'lost', attempt: isExhausted ? attempt : attempt + 1, isExhausted, error: report.error };
    }
    default:
      return { ...present, outcome: task.observed === undefined ? 'waiting' : 'running' };
  }
}

/**
 * Returns the write that leads to the task that its owner wants, or that removes a task which is not needed any more: its
 * removal cancels it. Pure.
 *
 * @param role of the task among those of its owner; a task whose type the owner has only once has its name
 */
export function planTask<T extends TaskType>(
  type: T,
  owner: ReadonlyResource,
  { task, wanted, role = type }: { task: Assignment | undefined; wanted: Wanted<T> | undefined; role?: string },
): Action[] {
  if (wanted === undefined) return planOne(owner, role, { present: task, desired: undefined });
  const { place, deadlineMs = taskRow(type).deadlineSeconds * 1000 } = wanted;
  const { attempt } = taskState(type, task);
  const spec: StoredTask = wanted.spec({ type, deadline_seconds: Math.ceil(deadlineMs / 1000), attempt });
  const desired: DesiredOf<'assignment'> = {
    ...place,
    service: mainService,
    run: 'running',
    spec,
    spec_hash: taskHash(place.version, spec),
  };
  return planOne(owner, role, { present: task, desired });
}

/**
 * How long an owner waits for a task that its server has begun. The agent ends an attempt at its deadline and reports why;
 * this deadline is for an agent that never comes back.
 */
export function patienceMs(deadlineMs: number): number {
  return deadlineMs + 60_000;
}

/** The most attempts in all, also of a task that its server lost with all that it knew. */
function attemptsOf({ ifInterrupted }: TaskRow): number {
  return ifInterrupted === 'again' ? attemptsInAll : 1;
}

function unreadable({ noun, codes }: TaskRow): Failure {
  const message = `The ${noun} succeeded, but its server reported no result that the control plane can read: bring agent and control plane to the same release, then begin it again`;
  return { code: codes.failed, message };
}
