import { assignmentId } from './kinds/assignment-id.ts';
import type { ReadonlyResource } from './resource.ts';

type Task = ReadonlyResource<'assignment'>;
type Progress = NonNullable<Task['observed']>['progress'];

/** The part of a tenant's view that shows assignments. */
interface Assignments {
  get(kind: 'assignment', id: string): Task | undefined;
}

/**
 * Returns the progress of the task that an object has in this role; `undefined` unless it runs and its agent reports it.
 *
 * @param role of the task among those of its owner, such as `build`
 */
export function taskProgress(view: Assignments, owner: string, role: string): Progress {
  return progressOf(view.get('assignment', assignmentId.task(owner, role)));
}

/**
 * Returns the progress of a task that was found. A report of an earlier generation can be of an earlier attempt, which
 * shows nothing of the present one.
 */
export function progressOf(task: Task | undefined): Progress {
  const isPresent = task?.observed !== undefined && task.observed.observedGeneration >= task.meta.generation;
  return isPresent && task.observed.phase === 'running' ? task.observed.progress : undefined;
}
