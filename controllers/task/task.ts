import { assignmentId } from '../../store/kinds/assignment-id.ts';
import type { DesiredOf } from '../../store/kinds/kinds.ts';
import { isStaying } from '../../store/resource.ts';
import type { ReadonlyResource } from '../../store/resource.ts';
import type { Action } from '../rollout/actions.ts';
import type { Assignment } from '../rollout/slots.ts';
import { upToDate } from '../runtime/up-to-date.ts';

/** What has become of a task, as its owner sees it. */
export interface TaskState {
  /**
   * `absent`: it was not asked for yet. `waiting`: its server has not reported it yet. `lost`: its server does not know
   * what became of the attempt.
   */
  outcome: 'absent' | 'waiting' | 'running' | 'succeeded' | 'failed' | 'lost';
  /** The attempt that shall run: after a lost one the next, as long as attempts are left. */
  attempt: number;
  /** It was lost as often as it may be: no other attempt is made. */
  isExhausted: boolean;
  /** What its server reported of the present attempt. */
  report: Assignment['observed'];
}

/**
 * Returns what has become of a task. Pure.
 *
 * @param attempts most attempts in all; 1 for a task that must not be repeated
 */
export function taskState(task: Assignment | undefined, attempts: number): TaskState {
  if (task === undefined) return { outcome: 'absent', attempt: 1, isExhausted: false, report: undefined };
  const { spec } = task.desired;
  const present = 'attempt' in spec ? spec.attempt : 1;
  const report = upToDate(task);
  const outcome = outcomeOf(task, report);
  const isLost = outcome === 'lost';
  return {
    outcome,
    attempt: isLost ? Math.min(present + 1, attempts) : present,
    isExhausted: isLost && present >= attempts,
    report,
  };
}

/**
 * Returns the write that leads to the task that `desired` describes, or that removes a task which is not needed any more:
 * its removal cancels it. Pure.
 *
 * @param role of the task among those of its owner, such as `build`
 */
export function planTask(
  owner: ReadonlyResource,
  role: string,
  { task, desired }: { task: Assignment | undefined; desired: DesiredOf<'assignment'> | undefined },
): Action[] {
  if (desired !== undefined) return [{ do: 'ensure', id: assignmentId.task(owner.meta.id, role), desired, owner }];
  return isStaying(task) ? [{ do: 'retire', id: task.meta.id }] : [];
}

function outcomeOf(task: Assignment, report: TaskState['report']): TaskState['outcome'] {
  switch (report?.phase) {
    case 'succeeded':
    case 'failed':
    case 'lost':
      return report.phase;
    default:
      return task.observed === undefined ? 'waiting' : 'running';
  }
}
