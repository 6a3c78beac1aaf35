import { expect, test } from 'vitest';
import type { FailureCode } from '../../../agent-protocol/failure-codes.ts';
import { volumeController } from '../../../controllers/volume/reconcile.ts';
import { isCopied } from '../../../controllers/volume/states.ts';
import { assignmentId } from '../../../store/kinds/assignment-id.ts';
import { kinds, type DesiredOf, type ObservedOf } from '../../../store/kinds/kinds.ts';
import { commit } from '../../../store/unit.ts';
import { desiredState } from '../../harness/states.ts';
import { createProject, id, openRig, tenant, type Rig } from '../runtime/rig.ts';

const controllers = [volumeController];

/** A volume on a server, and what its agent reports of it. */
async function made(rig: Rig, changes: Partial<DesiredOf<'volume'>> = {}) {
  const project = await createProject(rig.repo, 'shop');
  const unit = rig.repo.begin();
  unit.create('user', id('owner'), desiredState('user'));
  unit.create('server', id('server'), desiredState('server'));
  unit.create('environment', id('environment'), desiredState('environment'));
  const place = { project_id: project, environment_id: id('environment'), server_id: id('server') };
  unit.create('volume', id('data'), desiredState('volume', { ...place, ...changes }));
  await commit(unit);
  await rig.rest();
  const view = rig.mirror.tenant(tenant);
  const assignment = assignmentId.task(id('data'), 'volume');
  const report = async (observed: Partial<ObservedOf<'assignment'>>): Promise<void> => {
    const it = await rig.repo.get('assignment', assignment);
    if (it === undefined) throw new Error('The volume was not asked for');
    const full = kinds.assignment.observed.parse({ phase: 'running', ...observed });
    await rig.repo.observe(it, { ...full, observedGeneration: it.meta.generation, conditions: [] }, []);
    await rig.rest();
  };
  return {
    place,
    report,
    assignment: () => view.get('assignment', assignment),
    volume: () => view.get('volume', id('data')),
    phase: () => view.get('volume', id('data'))?.observed?.phase,
    reason: () => view.get('volume', id('data'))?.observed?.conditions.find(({ type }) => type === 'Ready')?.reason,
    message: () => view.get('volume', id('data'))?.observed?.conditions.find(({ type }) => type === 'Ready')?.message,
  };
}

const there = { ready: true, stable: true };

test('a volume is made on its server, is available, and is bound while an application or a function mounts it', async () => {
  await using rig = await openRig({ controllers });
  const { place, report, phase, assignment } = await made(rig);
  expect(phase()).toBe('pending');
  expect(assignment()?.desired).toMatchObject({
    run: 'running',
    spec: { type: 'volume', volume: `sp-vol-${id('data')}` },
  });
  await report(there);
  expect(phase()).toBe('available');
  const mounts = [{ volume_id: id('data'), path: '/data', read_only: false }];
  const unit = rig.repo.begin();
  unit.create('application', id('web'), desiredState('application', { ...place, mounts }));
  await commit(unit);
  await rig.rest();
  expect(phase()).toBe('bound');
  await rig.repo.change('application', id('web'), (draft) => void (draft.mounts = []));
  await rig.rest();
  expect(phase()).toBe('available');
});

test('a volume in error is recorded and its users are notified, once', async () => {
  await using rig = await openRig({ controllers });
  const { report } = await made(rig);
  await report(there);
  await report({ phase: 'failed', error: { code: 'data_lost', message: 'It was removed' } });
  await report({ phase: 'failed', error: { code: 'data_lost', message: 'It was removed' }, restarts: 1 });
  const notifications = rig.mirror.tenant(tenant).list('notification');
  expect(notifications.map(({ desired }) => desired)).toMatchObject([
    { type: 'volume_error', message: 'It was removed' },
  ]);
});

test('nobody is notified of a former volume that has what was lost', async () => {
  await using rig = await openRig({ controllers });
  const { report, phase } = await made(rig, { expires_at: '2031-01-01T00:00:00.000Z' });
  await report(there);
  await report({ phase: 'failed', error: { code: 'data_lost', message: 'It was removed' } });
  expect(phase()).toBe('error');
  expect(rig.mirror.tenant(tenant).list('notification')).toEqual([]);
});

test.each<[FailureCode, string]>([
  ['data_lost', 'DataLost'],
  ['no_space', 'NoSpace'],
])('a volume whose server reports %s is in error', async (code, reason) => {
  await using rig = await openRig({ controllers });
  const { report, phase, reason: shown } = await made(rig);
  await report({ phase: 'failed', error: { code, message: 'It is so' } });
  expect([phase(), shown()]).toEqual(['error', reason]);
});

test('a volume keeps its phase while its server is away, and says that it is not known', async () => {
  await using rig = await openRig({ controllers });
  const { report, phase, reason } = await made(rig);
  await report(there);
  const server = (await rig.repo.get('server', id('server')))!;
  await rig.repo.observe(server, { phase: 'offline', observedGeneration: 1, conditions: [] }, []);
  await rig.rest();
  expect([phase(), reason()]).toEqual(['available', 'ServerAway']);
});

test('the record of a deleted volume stays until its server reports that the data is removed', async () => {
  await using rig = await openRig({ controllers });
  const { report, phase, assignment, volume } = await made(rig);
  await report(there);
  const deletion = rig.repo.begin();
  deletion.requestDelete((await rig.repo.get('volume', id('data')))!);
  await commit(deletion);
  await rig.rest();
  expect([phase(), assignment()?.desired.run]).toEqual(['deleting', 'stopped']);
  await report({ phase: 'stopping', error: { code: 'in_use', message: 'A container mounts it' } });
  expect(volume()).toBeDefined();
  await report({ phase: 'stopped' });
  expect(assignment()?.meta.deletionRequestedAt).toBeDefined();
  expect(volume()).toBeDefined();
  const removal = rig.repo.begin();
  removal.release((await rig.repo.get('assignment', assignment()!.meta.id))!, 'agent');
  await commit(removal);
  await rig.rest();
  expect(volume()).toBeUndefined();
});

test('a deleted volume says why its data cannot be removed, and what holds it', async () => {
  await using rig = await openRig({ controllers });
  const { report, volume } = await made(rig);
  await report(there);
  const deletion = rig.repo.begin();
  deletion.requestDelete((await rig.repo.get('volume', id('data')))!);
  await commit(deletion);
  await rig.rest();
  const shown = () => volume()?.observed?.conditions.find(({ type }) => type === 'Ready')?.message;
  expect(shown()).toBe('Its data is being removed from its server');
  await report({ phase: 'stopping', error: { code: 'in_use', message: 'A container uses it' } });
  expect(shown()).toBe('Waits until no container mounts it');
  await report({ phase: 'stopping', error: { code: 'name_taken', message: 'Not made by an agent: remove it' } });
  expect(shown()).toBe('Its server cannot remove its data, and tries again: Not made by an agent: remove it');
});

test('a volume whose agent is too old shows the condition of that, and is in no error', async () => {
  await using rig = await openRig({ controllers });
  const { report, phase, reason, volume } = await made(rig);
  const tooOld = () => volume()?.observed?.conditions.find(({ type }) => type === 'AgentTooOld');
  const error = { code: 'agent_outdated', message: 'The agent is too old for volumes: upgrade it' };
  await report({ phase: 'pending', error });
  expect([phase(), reason()]).toEqual(['pending', 'AgentTooOld']);
  expect(tooOld()).toMatchObject({ status: 'true', reason: 'AgentOfEarlierRelease', message: error.message });
  expect(rig.mirror.tenant(tenant).list('notification')).toEqual([]);
  await report(there);
  expect([phase(), tooOld()]).toEqual(['available', undefined]);
  await report({ phase: 'failed', error });
  expect([phase(), tooOld()?.status]).toEqual(['available', 'true']);
});

test('a volume whose server is deleted says so, and can be deleted', async () => {
  await using rig = await openRig({ controllers });
  const { report, phase, reason, volume } = await made(rig);
  await report(there);
  const gone = rig.repo.begin();
  const assignment = (await rig.repo.get('assignment', assignmentId.task(id('data'), 'volume')))!;
  gone.requestDelete((await rig.repo.get('server', id('server')))!);
  gone.requestDelete(assignment);
  gone.release(assignment, 'agent');
  await commit(gone);
  await rig.rest();
  expect([phase(), reason()]).toEqual(['error', 'ServerGone']);
  expect(volume()?.observed?.conditions.map(({ message }) => message)).toEqual([
    expect.stringContaining('Its data stays on that machine'),
  ]);
  const deletion = rig.repo.begin();
  deletion.requestDelete((await rig.repo.get('volume', id('data')))!);
  await commit(deletion);
  await rig.rest();
  expect(volume()).toBeUndefined();
});

const copyFrom = { docker_volume: 'blog_data', containers: ['blog-db-1'] };

test('a volume that begins as a copy shows what it waits for and how far it is, and is then as any other', async () => {
  await using rig = await openRig({ controllers });
  const { report, phase, reason, message, assignment, volume } = await made(rig, { copy_from: copyFrom });
  const asked = assignment()?.desired;
  const engineName = `sp-vol-${id('data')}`;
  expect(asked?.spec).toEqual({ type: 'copied_volume', volume: engineName, copy_from: copyFrom });
  await report({ phase: 'pending', error: { code: 'copy_waits', message: 'Stop blog-db-1' } });
  expect([phase(), reason(), message()]).toEqual(['pending', 'CopyWaits', 'Stop blog-db-1']);
  await report({ phase: 'preparing', progress: { step: 'copying' } });
  const begun = 'Docker volume blog_data is being copied. Start nothing that writes to it';
  expect([phase(), reason(), message()]).toEqual(['pending', 'Copying', begun]);
  const progress = { step: 'copying', done: 3 * 1024 ** 3, total: 12 * 1024 ** 3, unit: 'bytes' };
  await report({ phase: 'preparing', progress });
  expect(message()).toBe('Docker volume blog_data is being copied: 3.00 of 12.00 GiB. Start nothing that writes to it');
  expect(volume()?.observed?.copied).toBeUndefined();
  expect(rig.mirror.tenant(tenant).list('notification')).toEqual([]);

  await report(there);
  expect([phase(), volume()?.observed?.copied]).toEqual(['available', true]);
  expect(assignment()?.desired).toEqual({ ...asked, spec: { type: 'volume', volume: engineName } });
  // the agent has not reported on that yet
  expect([phase(), reason()]).toEqual(['available', 'Available']);
  await report(there);
  const before = rig.store.committed;
  rig.controllers.resync();
  await rig.rest();
  expect(rig.store.committed).toBe(before);
});

test.each<[FailureCode, string]>([
  ['no_space', 'NoSpace'],
  ['copy_refused', 'CopyRefused'],
  ['copy_failed', 'CopyFailed'],
])('a volume whose copy fails with %s is in error, and is no copy yet', async (code, reason) => {
  await using rig = await openRig({ controllers });
  const { report, phase, reason: shown, volume } = await made(rig, { copy_from: copyFrom });
  const notifications = () => rig.mirror.tenant(tenant).list('notification').length;
  const failed = { phase: 'pending', error: { code, message: 'It is so' } } as const;
  await report(failed);
  expect([phase(), shown(), volume()?.observed?.copied]).toEqual(['error', reason, undefined]);
  const told = notifications();
  expect(told).toBeGreaterThan(0);
  // another try is no news, and neither is its failure
  await report({ phase: 'preparing', progress: { step: 'copying' } });
  expect([phase(), shown()]).toEqual(['error', 'Copying']);
  await report(failed);
  expect([phase(), shown(), notifications()]).toEqual(['error', reason, told]);
  await report({ phase: 'pending', error: { code: 'copy_waits', message: 'Stop blog-db-1' } });
  expect([phase(), shown()]).toEqual(['pending', 'CopyWaits']);
});

test('a volume that lost its data after it was copied is never copied again', async () => {
  await using rig = await openRig({ controllers });
  const { report, phase, assignment, volume } = await made(rig, { copy_from: copyFrom });
  await report(there);
  await report({ phase: 'failed', error: { code: 'data_lost', message: 'It was removed' } });
  expect([phase(), volume()?.observed?.copied]).toEqual(['error', true]);
  expect(assignment()?.desired.spec.type).toBe('volume');
  const found = volume();
  // also where the assignment is made anew
  expect(found && isCopied(found, undefined)).toBe(true);
});

test('a volume that was given other data is kept as that on its server', async () => {
  await using rig = await openRig({ controllers });
  const { report, assignment, phase } = await made(rig);
  await report(there);
  const before = assignment()?.meta.generation ?? 0;
  await rig.repo.change('volume', id('data'), (draft) => void (draft.data_id = id('other')));
  await rig.rest();
  expect(assignment()?.desired).toMatchObject({ run: 'running', spec: { volume: `sp-vol-${id('other')}` } });
  expect(assignment()?.meta.generation).toBeGreaterThan(before);
  await report(there);
  expect(phase()).toBe('available');
});

test('a volume that is deleted with the data that it was given just now removes that, and not what it had before', async () => {
  await using rig = await openRig({ controllers });
  const { report, assignment } = await made(rig);
  await report(there);
  const it = (await rig.repo.get('volume', id('data')))!;
  const unit = rig.repo.begin();
  const changed = unit.change(it, (draft) => void (draft.data_id = id('other')));
  unit.requestDelete(changed);
  await commit(unit);
  await rig.rest();
  expect(assignment()?.desired).toMatchObject({ run: 'stopped', spec: { volume: `sp-vol-${id('other')}` } });
  await report({ phase: 'stopped' });
  expect(assignment()?.meta.deletionRequestedAt).toBeDefined();
});
