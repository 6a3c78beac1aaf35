import { expect, test } from 'vitest';
import { restoreController } from '../../../controllers/restore/reconcile.ts';
import { patience } from '../../../controllers/restore/states.ts';
import { assignmentId } from '../../../store/kinds/assignment-id.ts';
import { kinds } from '../../../store/kinds/kinds.ts';
import type { DesiredOf, ObservedOf } from '../../../store/kinds/kinds.ts';
import { commit } from '../../../store/unit.ts';
import { desiredState } from '../../harness/states.ts';
import { id, openRig, tenant } from '../runtime/rig.ts';
import type { Rig } from '../runtime/rig.ts';

const controllers = [restoreController];

interface Asked {
  restore?: Partial<DesiredOf<'restore'>>;
  /** The reason of the condition of the volume that is restored. */
  reason?: string;
}

/** A restore of volume `data`, which application `web` mounts; the new volume is `fresh`. */
async function asked(rig: Rig, { restore = {}, reason = 'Bound' }: Asked = {}) {
  const { repo } = rig;
  const view = rig.mirror.tenant(tenant);
  const place = { environment_id: id('environment'), server_id: id('server') };
  const of = { ...place, project_id: id('shop') };
  const unit = repo.begin();
  unit.create('user', id('root'), desiredState('user', { email: 'root@example.test', role: 'superadmin' }));
  unit.create('server', id('server'), desiredState('server', { agent_public_key: 'key' }));
  unit.create('backup_destination', id('store'), desiredState('backup_destination', { name: 'store' }));
  unit.create('volume', id('data'), desiredState('volume', { ...of, name: 'notes' }));
  unit.create('volume', id('fresh'), desiredState('volume', { ...of, name: 'notes (restore)' }));
  const mounts = [{ volume_id: id('data'), path: '/data', read_only: false }];
  unit.create('application', id('web'), desiredState('application', { ...of, mounts }));
  const backup = { project_id: id('shop'), place, method: 'snapshot' as const, destination_id: id('store') };
  unit.create('backup', id('good'), desiredState('backup', { ...backup, of: { kind: 'volume', id: id('data') } }));
  const wanted = { project_id: id('shop'), place, backup_id: id('good'), volume_id: id('fresh'), name: 'notes' };
  unit.create(
    'restore',
    id('back'),
    desiredState('restore', { ...wanted, of: { kind: 'volume', id: id('data') }, ...restore }),
  );
  await commit(unit);
  const taskId = assignmentId.task(id('back'), 'restore');
  const it = {
    view,
    task: () => view.get('assignment', taskId),
    restore: () => view.get('restore', id('back')),
    phase: () => view.get('restore', id('back'))?.observed?.phase,
    volume: (name: string) => view.get('volume', id(name))?.desired,
    mounts: () => view.get('application', id('web'))?.desired.mounts,
    async observe(name: string, phase: ObservedOf<'volume'>['phase'], why = 'Available') {
      const volume = (await repo.get('volume', id(name)))!;
      const { generation } = volume.meta;
      const said = { type: 'Ready', status: 'true' as const, reason: why, message: why };
      const condition = { ...said, observedGeneration: generation, changedAt: '2030-01-01T00:00:00.000Z' };
      await repo.observe(volume, { phase, observedGeneration: generation, conditions: [condition] }, []);
      await rig.rest();
    },
    async report(observed: Partial<ObservedOf<'assignment'>>) {
      const task = (await repo.get('assignment', taskId))!;
      const full = kinds.assignment.observed.parse({ phase: 'running', ...observed });
      await repo.observe(task, { ...full, observedGeneration: task.meta.generation, conditions: [] }, []);
      await rig.rest();
    },
  };
  const good = (await repo.get('backup', id('good')))!;
  const sizes = { size_bytes: 7, dump_bytes: 9, checksum_sha256: 'c'.repeat(64) };
  await repo.observe(good, { phase: 'completed', ...sizes, observedGeneration: 1, conditions: [] }, []);
  await it.observe('data', reason === 'DataLost' ? 'error' : 'bound', reason);
  await it.observe('fresh', 'available');
  return it;
}

const done = { phase: 'succeeded' as const, result: { dump_bytes: 9 } };

test('the volume gets what was restored, and the new one the former data for a week', async () => {
  await using rig = await openRig({ controllers });
  const it = await asked(rig);
  expect(it.phase()).toBe('restoring');
  expect(it.task()?.desired.spec).toMatchObject({ format: 'tar', volume: `sp-vol-${id('fresh')}`, size_bytes: 7 });
  expect(it.volume('data')?.data_id).toBeUndefined();
  await it.report(done);
  expect(it.phase()).toBe('completed');
  expect(it.volume('data')).toMatchObject({ name: 'notes', data_id: id('fresh') });
  expect(it.volume('fresh')).toMatchObject({
    name: `notes (before restore ${id('back').slice(0, 8)})`,
    data_id: id('data'),
    expires_at: expect.any(String),
  });
  expect(it.mounts()).toEqual([{ volume_id: id('data'), data_id: id('fresh'), path: '/data', read_only: false }]);
});

test.each([
  ['may write to the volume', {}, true],
  ['only reads the volume', { read_only_volumes: true }, false],
])('what was restored waits for a command that %s: %j', async (_, fields, waits) => {
  await using rig = await openRig({ controllers });
  const it = await asked(rig);
  const unit = rig.repo.begin();
  unit.create('run', id('migrate'), desiredState('run', { application_id: id('web'), ...fields }));
  await commit(unit);
  const run = async (phase: ObservedOf<'run'>['phase']) => {
    const found = (await rig.repo.get('run', id('migrate')))!;
    await rig.repo.observe(found, { phase, observedGeneration: 1, conditions: [] }, []);
    await rig.rest();
  };
  await run('running');
  await it.report({ phase: 'running' });
  await it.report(done);
  if (waits) {
    expect([it.phase(), it.volume('data')?.data_id]).toEqual(['restoring', undefined]);
    const message = it.restore()?.observed?.conditions.find(({ type }) => type === 'Ready')?.message;
    expect(message).toBe(`It waits for command ${id('migrate')}, which may write to the volume, to end`);
    await rig.clock.advance(23 * 60 * 60_000);
    await rig.rest();
    await run('succeeded');
  }
  expect([it.phase(), it.volume('data')?.data_id]).toEqual(['completed', id('fresh')]);
});

test('a command that goes on for longer than it may ends a restore that waits for it, which names it', async () => {
  await using rig = await openRig({ controllers });
  const it = await asked(rig);
  const unit = rig.repo.begin();
  unit.create('run', id('migrate'), desiredState('run', { application_id: id('web') }));
  await commit(unit);
  await it.report({ phase: 'running' });
  await it.report(done);
  await rig.clock.advance(patience.quietMs - 60_000);
  await rig.rest();
  expect(it.phase()).toBe('restoring');
  await rig.clock.advance(2 * 60_000);
  await rig.rest();
  expect([it.phase(), it.volume('data')?.data_id]).toEqual(['failed', undefined]);
  expect(it.restore()?.observed?.error).toMatchObject({
    code: 'volume_in_use',
    message: expect.stringContaining('cancel them'),
  });
});

test('a command that was asked for after the exchange was noted, and before it was made, holds it up', async () => {
  await using rig = await openRig({ controllers });
  const it = await asked(rig);
  const unit = rig.repo.begin();
  unit.create('run', id('migrate'), desiredState('run', { application_id: id('web') }));
  await commit(unit);
  const noted = { phase: 'switching' as const, former_volume_id: id('data'), observedGeneration: 1, conditions: [] };
  await rig.repo.observe((await rig.repo.get('restore', id('back')))!, noted, []);
  rig.controllers.resync();
  await rig.rest();
  expect([it.phase(), it.volume('data')?.data_id]).toEqual(['switching', undefined]);
  const ended = { phase: 'succeeded' as const, observedGeneration: 1, conditions: [] };
  await rig.repo.observe((await rig.repo.get('run', id('migrate')))!, ended, []);
  await rig.rest();
  expect([it.phase(), it.volume('data')?.data_id]).toEqual(['completed', id('fresh')]);
});

test('a function that mounts the volume mounts what was restored', async () => {
  await using rig = await openRig({ controllers });
  const it = await asked(rig);
  const unit = rig.repo.begin();
  const of = { project_id: id('shop'), environment_id: id('environment'), server_id: id('server') };
  const mounts = [{ volume_id: id('data'), path: '/data', read_only: false }];
  unit.create('function', id('hello'), desiredState('function', { ...of, mounts }));
  await commit(unit);
  await rig.rest();
  await it.report(done);
  expect(it.phase()).toBe('completed');
  expect(it.view.get('function', id('hello'))?.desired.mounts).toEqual([{ ...mounts[0], data_id: id('fresh') }]);
});

test('a volume that was lost gets what was restored, and what may have been put back stays as any former data', async () => {
  await using rig = await openRig({ controllers });
  const it = await asked(rig, { reason: 'DataLost' });
  await it.report(done);
  expect(it.phase()).toBe('completed');
  expect(it.volume('data')?.data_id).toBe(id('fresh'));
  expect(it.volume('fresh')).toMatchObject({ data_id: id('data'), expires_at: expect.any(String) });
  expect(it.view.get('volume', id('fresh'))?.meta.deletionRequestedAt).toBeUndefined();
});

test('one that failed leaves the volume as it was, and its new one is removed', async () => {
  await using rig = await openRig({ controllers });
  const it = await asked(rig);
  await it.report({ phase: 'failed', error: { code: 'restore_failed', message: 'Program tar ended with 2' } });
  expect(it.phase()).toBe('failed');
  expect(it.volume('data')?.data_id).toBeUndefined();
  expect(it.view.get('volume', id('fresh'))?.meta.deletionRequestedAt).toBeDefined();
  expect(it.mounts()).toEqual([{ volume_id: id('data'), path: '/data', read_only: false }]);
});

test('what its server lost is thrown away, and read anew into another volume', async () => {
  await using rig = await openRig({ controllers });
  const it = await asked(rig);
  await it.report({ phase: 'lost' });
  expect(it.restore()?.observed).toMatchObject({ attempt: 2 });
  expect(it.view.get('volume', id('fresh'))?.meta.deletionRequestedAt).toBeDefined();
  expect(it.restore()?.observed?.volume_id).not.toBe(id('fresh'));
});

test('a volume that was made for it is mounted once it has all', async () => {
  await using rig = await openRig({ controllers });
  const bind = { application_id: id('web'), path: '/copy', read_only: true };
  const of = { kind: 'volume' as const, id: id('fresh') };
  const it = await asked(rig, { restore: { is_new: true, of, bind } });
  expect(it.mounts()).toHaveLength(1);
  await it.report(done);
  expect(it.phase()).toBe('completed');
  expect(it.mounts()?.[1]).toEqual({ volume_id: id('fresh'), path: '/copy', read_only: true });
  expect(it.volume('fresh')).toMatchObject({ name: 'notes (restore)' });
  expect(it.volume('fresh')?.expires_at).toBeUndefined();
});

test('a volume that was made for it is mounted by a function', async () => {
  await using rig = await openRig({ controllers });
  const place = { project_id: id('shop'), environment_id: id('environment'), server_id: id('server') };
  const unit = rig.repo.begin();
  unit.create('function', id('hello'), desiredState('function', place));
  await commit(unit);
  const bind = {
    application_id: id('hello'),
    workload_kind: 'function' as const,
    path: '/copy',
    read_only: false,
  };
  const it = await asked(rig, { restore: { is_new: true, of: { kind: 'volume', id: id('fresh') }, bind } });
  await it.report(done);
  expect(it.phase()).toBe('completed');
  const mounts = it.view.get('function', id('hello'))?.desired.mounts;
  expect(mounts).toEqual([{ volume_id: id('fresh'), path: '/copy', read_only: false }]);
  expect(it.mounts()).toHaveLength(1);
});

test('a volume that was made for it stays unmounted if its path is taken meanwhile', async () => {
  await using rig = await openRig({ controllers });
  const bind = { application_id: id('web'), path: '/data/below', read_only: true };
  const of = { kind: 'volume' as const, id: id('fresh') };
  const it = await asked(rig, { restore: { is_new: true, of, bind } });
  await it.report(done);
  expect(it.phase()).toBe('completed');
  expect(it.mounts()).toHaveLength(1);
  expect(it.view.list('notification').map(({ desired }) => desired.message)).toEqual([
    'It has what was restored, and its application cannot mount it at /data/below any more: bind it',
  ]);
});

test('a volume that was made for it goes if it failed, also if only its server lost it', async () => {
  await using rig = await openRig({ controllers });
  const it = await asked(rig, { restore: { is_new: true, of: { kind: 'volume', id: id('fresh') } } });
  await it.report({ phase: 'lost' });
  expect(it.phase()).toBe('failed');
  expect(it.view.get('volume', id('fresh'))?.meta.deletionRequestedAt).toBeDefined();
});

test('a drill reads all of the archive beside the volume, which stays as it is', async () => {
  await using rig = await openRig({ controllers });
  const it = await asked(rig, { restore: { is_drill: true } });
  await it.report(done);
  expect(it.phase()).toBe('completed');
  expect(it.volume('data')).toMatchObject({ name: 'notes' });
  expect(it.volume('data')?.data_id).toBeUndefined();
  expect(it.mounts()).toEqual([{ volume_id: id('data'), path: '/data', read_only: false }]);
  expect(it.view.get('volume', id('fresh'))?.meta.deletionRequestedAt).toBeDefined();
});
