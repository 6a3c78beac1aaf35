import type { WireAssignment } from '../../agent-protocol/assignment.ts';
import type { TaskKnown, TaskResult, TaskSpec, TaskType } from '../../agent-protocol/task-types.ts';
import { isTaskType } from '../../agent-protocol/task-types.ts';
import type { Progress } from '../../agent-protocol/workload.ts';
import type { Overflow } from '../engine/storage-watch.ts';
import type { Turns } from './turns.ts';

/** A task of the desired set. */
export type TaskItem<T extends TaskType = TaskType> = WireAssignment & { spec: TaskSpec<T> };

export function isTask(item: WireAssignment): item is TaskItem {
  return isTaskType(item.spec.type);
}

/** What a task reports before its end. */
export interface TaskProgress<T extends TaskType = TaskType> {
  /** A line of its output. */
  line: (text: string) => void;
  /** What is known so far; it is reported also if the attempt fails. `{}`: the attempt began anew. */
  learned: (known: TaskKnown<T>) => void;
  /** What it does now, and how far that is. Of frequent calls, one per second is reported. */
  at: (progress: Progress) => void;
}

/** How this agent carries out a type of task. What the type says of itself is in `agent-protocol/task-table.ts`. */
export interface TaskWork<T extends TaskType = TaskType> {
  /** Bounds how many tasks run at a time. */
  readonly turns: Turns;
  /** Tasks with the same text take their turns one after another; absent: those of one project. */
  turnOf?: (item: TaskItem<T>) => string;
  /** Called when an attempt ended, with any result. */
  ended?: () => void;
  /** Called once a success or a failure is on the disk, so that nothing of the attempt is made again. */
  recorded?: (item: TaskItem<T>) => Promise<void>;
  /** Removes what an attempt left that the end of the agent interrupted and that is lost. */
  clean?: (item: TaskItem<T>, signal: AbortSignal) => Promise<void>;
  /** A container of the task wrote more than its limit. */
  overflowed?: (id: string, overflow: Overflow) => void;
  /** Carries out one attempt. @throws RuntimeFailure; the reason of the signal when that aborts */
  run(item: TaskItem<T>, progress: TaskProgress<T>, signal: AbortSignal): Promise<TaskResult<T>>;
}

/** The work of each type of task. */
export type Tasks = { readonly [T in TaskType]: TaskWork<T> };
