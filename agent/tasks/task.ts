import type { WireAssignment } from '../../agent-protocol/assignment.ts';
import type { TaskKnown, TaskResult, TaskSpec, TaskType } from '../../agent-protocol/task-types.ts';
import { isTaskType } from '../../agent-protocol/task-types.ts';
import type { Progress } from '../../agent-protocol/workload.ts';
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
  /** Called when an attempt ended, with any result. */
  ended?: () => void;
  /** Carries out one attempt. @throws RuntimeFailure; the reason of the signal when that aborts */
  run(item: TaskItem<T>, progress: TaskProgress<T>, signal: AbortSignal): Promise<TaskResult<T>>;
}

/** The work of each type of task. */
export type Tasks = { readonly [T in TaskType]: TaskWork<T> };
