import { describe, expect, it } from 'vitest';
import { assignmentId } from '../../store/kinds/assignment-id.ts';
import type { ObservedOf } from '../../store/kinds/kinds.ts';
import { progressOf, taskProgress } from '../../store/task-progress.ts';
import { aServer, object } from '../harness/objects.ts';
import { desiredState } from '../harness/states.ts';
import { buildSpec } from '../harness/wire-items.ts';

const owner = aServer().meta.id;
const progress = { step: 'building', done: 2, total: 7, unit: 'steps' };

function task(observed: Partial<ObservedOf<'assignment'>>, observedGeneration = 2) {
  return object('assignment', desiredState('assignment', { spec: buildSpec({ attempt: 2 }) }), {
    generation: 2,
    observedGeneration,
    observed: { phase: 'running', ready: false, stable: false, restarts: 0, crash_loop: false, ...observed },
  });
}

describe('the progress of a task', () => {
  it('is what its agent reported of the present attempt', () => {
    expect(progressOf(task({ progress }))).toEqual(progress);
    expect(progressOf(task({ progress }, 1))).toBeUndefined();
    expect(progressOf(task({}))).toBeUndefined();
    expect(progressOf(undefined)).toBeUndefined();
  });

  it('is over with the task', () => {
    for (const phase of ['pending', 'stopping', 'stopped', 'succeeded', 'failed', 'lost'] as const)
      expect(progressOf(task({ progress, phase }))).toBeUndefined();
  });

  it('is that of the task in the role', () => {
    const running = task({ progress });
    const id = assignmentId.task(owner, 'dump');
    const view = { get: (_: 'assignment', wanted: string) => (wanted === id ? running : undefined) };
    expect(taskProgress(view, owner, 'dump')).toEqual(progress);
    expect(taskProgress(view, owner, 'build')).toBeUndefined();
  });
});
