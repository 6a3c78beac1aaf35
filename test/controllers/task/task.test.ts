import { describe, expect, it, test } from 'vitest';
import { planOne } from '../../../controllers/rollout/actions.ts';
import type { Wanted } from '../../../controllers/task/task.ts';
import { patienceMs, planTask, taskState } from '../../../controllers/task/task.ts';
import { assignmentId } from '../../../store/kinds/assignment-id.ts';
import type { ObservedOf } from '../../../store/kinds/kinds.ts';
import type { Resource } from '../../../store/resource.ts';
import { aServer, object } from '../../harness/objects.ts';
import { desiredState } from '../../harness/states.ts';
import { buildSpec } from '../../harness/wire-items.ts';

type Phase = ObservedOf<'assignment'>['phase'];

const owner = aServer();
const desired = (attempt = 1) => desiredState('assignment', { spec: buildSpec({ attempt }) });

type Report = Partial<ObservedOf<'assignment'>>;

function task(
  attempt: number,
  phase?: Phase,
  { report, ...more }: { deleting?: boolean; observedGeneration?: number; report?: Report } = {},
) {
  const observed = phase && { phase, ready: false, stable: false, restarts: 0, crash_loop: false, ...report };
  return object('assignment', desired(attempt), {
    generation: 2,
    ...more,
    ...(observed !== undefined && { observed }),
  });
}

const result = { image_digest: 'sha256:1', commit: 'c0ffee', commit_message: 'Make it work' };
const error = { code: 'branch_not_found', message: 'There is no branch main' };

describe('what has become of a task', () => {
  it.each<[string, Resource<'assignment'> | undefined, object]>([
    ['was not asked for', undefined, { outcome: 'absent', attempt: 1, isExhausted: false }],
    ['was not taken up', task(1), { outcome: 'waiting', attempt: 1 }],
    ['waits for its turn', task(1, 'pending'), { outcome: 'running', attempt: 1 }],
    ['succeeded', task(2, 'succeeded', { report: result }), { outcome: 'succeeded', attempt: 2, result }],
    [
      'failed, and is not repeated',
      task(1, 'failed', { report: { error, commit: 'c0ffee' } }),
      { outcome: 'failed', attempt: 1, isExhausted: false, known: { commit: 'c0ffee' }, error },
    ],
    [
      'failed for a reason that its server did not report',
      task(1, 'failed'),
      { outcome: 'failed', error: { code: 'build_failed', message: 'The build failed' } },
    ],
    [
      'succeeded with a result that cannot be read',
      task(1, 'succeeded', { report: { commit: 'c0ffee' } }),
      { outcome: 'failed', error: { code: 'build_failed', message: expect.stringContaining('same release') } },
    ],
    ['was lost, and is tried again', task(1, 'lost'), { outcome: 'lost', attempt: 2, isExhausted: false }],
    ['was lost for the last time', task(3, 'lost'), { outcome: 'lost', attempt: 3, isExhausted: true }],
    [
      'was lost in the attempt before',
      task(3, 'lost', { observedGeneration: 1 }),
      { outcome: 'running', attempt: 3, isExhausted: false },
    ],
  ])('%s', (_, it, state) => {
    expect(taskState('build', it)).toMatchObject(state);
  });
});

describe('the plan of a task', () => {
  const { server_id, project_id, environment_id, workload_id, workload_name, workload_kind, version } = desired();
  const place = { server_id, project_id, environment_id, workload_kind, workload_id, workload_name, version };
  const { type: _, attempt: __, deadline_seconds: ___, ...payload } = buildSpec();
  const wanted: Wanted<'build'> = { place, spec: (head) => ({ ...payload, ...head }), deadlineMs: 59_001 };

  it('asks for it under one id, which follows from its owner and role', () => {
    const [first] = planTask('build', owner, { task: undefined, wanted });
    const id = assignmentId.task(owner.meta.id, 'build');
    expect(first).toMatchObject({ do: 'ensure', id, owner, desired: { ...place, service: 'main', run: 'running' } });
    expect(planTask('build', owner, { task: task(1), wanted })).toEqual([first]);
    const other = assignmentId.task(owner.meta.id, 'first');
    expect(planTask('build', owner, { task: undefined, wanted, role: 'first' })).toMatchObject([{ id: other }]);
  });

  it('decides its deadline and its attempt', () => {
    const spec = (present: Resource<'assignment'> | undefined, what: Wanted<'build'> = wanted) => {
      const [action] = planTask('build', owner, { task: present, wanted: what });
      return action?.do === 'ensure' ? action.desired.spec : undefined;
    };
    expect(spec(undefined)).toEqual({ ...payload, type: 'build', attempt: 1, deadline_seconds: 60 });
    expect(spec(task(1, 'lost'))).toMatchObject({ attempt: 2 });
    expect(spec(task(2, 'failed'))).toMatchObject({ attempt: 2 });
    expect(spec(task(3, 'lost'))).toMatchObject({ attempt: 3 });
    expect(spec(undefined, { place, spec: wanted.spec })).toMatchObject({ deadline_seconds: 1800 });
    expect(patienceMs(60_000)).toBeGreaterThan(60_000);
  });

  it('removes it, once, when it is not needed any more', () => {
    const present = task(1, 'succeeded');
    expect(planTask('build', owner, { task: present, wanted: undefined })).toEqual([
      { do: 'retire', id: present.meta.id },
    ]);
    expect(planTask('build', owner, { task: task(1, 'running', { deleting: true }), wanted: undefined })).toEqual([]);
    expect(planTask('build', owner, { task: undefined, wanted: undefined })).toEqual([]);
  });
});

test('the one assignment in a role has an id of its own', () => {
  const wanted = desired();
  const [volume] = planOne(owner, 'volume', { present: undefined, desired: wanted });
  expect(volume).toEqual({
    do: 'ensure',
    id: assignmentId.task(owner.meta.id, 'volume'),
    desired: wanted,
    owner,
  });
  expect(assignmentId.task(owner.meta.id, 'volume')).not.toBe(assignmentId.task(owner.meta.id, 'build'));
});
