import { describe, expect, it } from 'vitest';
import { planTask, taskState } from '../../../controllers/task/task.ts';
import { assignmentId } from '../../../store/kinds/assignment-id.ts';
import type { ObservedOf } from '../../../store/kinds/kinds.ts';
import type { Resource } from '../../../store/resource.ts';
import { aServer, object } from '../../harness/objects.ts';
import { desiredState } from '../../harness/states.ts';
import { buildSpec } from '../../harness/wire-items.ts';

type Phase = ObservedOf<'assignment'>['phase'];

const owner = aServer();
const desired = (attempt = 1) => desiredState('assignment', { spec: buildSpec({ attempt }) });

function task(attempt: number, phase?: Phase, more: { deleting?: boolean; observedGeneration?: number } = {}) {
  const observed = phase && { phase, ready: false, stable: false, restarts: 0, crash_loop: false };
  return object('assignment', desired(attempt), {
    generation: 2,
    ...more,
    ...(observed !== undefined && { observed }),
  });
}

describe('what has become of a task', () => {
  it.each<[string, Resource<'assignment'> | undefined, object]>([
    ['was not asked for', undefined, { outcome: 'absent', attempt: 1, isExhausted: false }],
    ['was not taken up', task(1), { outcome: 'waiting', attempt: 1 }],
    ['waits for its turn', task(1, 'pending'), { outcome: 'running', attempt: 1 }],
    ['succeeded', task(2, 'succeeded'), { outcome: 'succeeded', attempt: 2 }],
    ['failed, and is not repeated', task(1, 'failed'), { outcome: 'failed', attempt: 1, isExhausted: false }],
    ['was lost, and is tried again', task(1, 'lost'), { outcome: 'lost', attempt: 2, isExhausted: false }],
    ['was lost for the last time', task(3, 'lost'), { outcome: 'lost', attempt: 3, isExhausted: true }],
    [
      'was lost in the attempt before',
      task(3, 'lost', { observedGeneration: 1 }),
      { outcome: 'running', attempt: 3, isExhausted: false },
    ],
  ])('%s', (_, it, state) => {
    expect(taskState(it, 3)).toMatchObject(state);
  });

  it('is final after one loss for a task that must not be repeated', () => {
    expect(taskState(task(1, 'lost'), 1)).toMatchObject({ outcome: 'lost', attempt: 1, isExhausted: true });
  });
});

describe('the plan of a task', () => {
  it('asks for it under one id, which follows from its owner and role', () => {
    const wanted = desired();
    const action = { do: 'ensure', id: assignmentId.task(owner.meta.id, 'dump'), desired: wanted, owner };
    expect(planTask(owner, 'dump', { task: undefined, desired: wanted })).toEqual([action]);
    expect(planTask(owner, 'dump', { task: task(1), desired: wanted })).toEqual([action]);
    expect(assignmentId.task(owner.meta.id, 'dump')).not.toBe(assignmentId.task(owner.meta.id, 'build'));
  });

  it('removes it, once, when it is not needed any more', () => {
    const present = task(1, 'succeeded');
    expect(planTask(owner, 'dump', { task: present, desired: undefined })).toEqual([
      { do: 'retire', id: present.meta.id },
    ]);
    expect(planTask(owner, 'dump', { task: task(1, 'running', { deleting: true }), desired: undefined })).toEqual([]);
    expect(planTask(owner, 'dump', { task: undefined, desired: undefined })).toEqual([]);
  });
});
