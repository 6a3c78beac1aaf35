import { describe, expect, test } from 'vitest';
import { taskRow } from '../../../agent-protocol/task-types.ts';
import { drillService, sideService } from '../../../store/kinds/internal-id.ts';
import { restoreController } from '../../../controllers/restore/reconcile.ts';
import { patience, provenWords } from '../../../controllers/restore/states.ts';
import { patienceMs } from '../../../controllers/task/task.ts';
import { segmentAt } from '../../../databases/wal.ts';
import { assignmentId } from '../../../store/kinds/assignment-id.ts';
import type { DesiredOf, ObservedOf } from '../../../store/kinds/kinds.ts';
import { kinds } from '../../../store/kinds/kinds.ts';
import type { ReadonlyResource } from '../../../store/resource.ts';
import { unavailable } from '../../../store/errors.ts';
import { keys } from '../../../store/keys.ts';
import type { Store, Txn, TxnResult } from '../../../store/store.ts';
import { commit } from '../../../store/unit.ts';
import { FakeClock } from '../../harness/fake-clock.ts';
import { ForwardingStore } from '../../harness/forwarding-store.ts';
import { desiredState, ofDatabase } from '../../harness/states.ts';
import { id, openRig, tenant } from '../runtime/rig.ts';
import type { Rig } from '../runtime/rig.ts';

const minute = 60_000;
const hour = 60 * minute;
const day = 24 * hour;
const at = '2030-01-01T00:00:00.000Z';
const controllers = [restoreController];
const recovery = {
  target_time: at,
  first_segment: segmentAt({ timeline: 1, position: 4 }),
  last_segment: segmentAt({ timeline: 1, position: 7 }),
  holds: true,
};
const up = { ready: true, stable: true };

type Observable = 'database' | 'server' | 'volume' | 'assignment' | 'backup' | 'wal_archive';

interface Asked {
  type?: 'postgres' | 'redis';
  isNew?: boolean;
  /** It is a drill; `behind`: another one of its server was asked for before. */
  isDrill?: boolean;
  behind?: boolean;
  /** A restore for use goes on on its server. */
  beside?: boolean;
  /** What it serves from is of another database. */
  isForeign?: boolean;
  /** What is restored in place of a backup. */
  source?: DesiredOf<'restore'>['source'];
  /** It is a recovery to an instant, which is held. */
  isRecovery?: boolean;
}

/** A restore into a database that serves from volume `data`; the new volume is `fresh`. */
async function asked(
  rig: Rig,
  {
    type = 'postgres',
    isNew = false,
    isDrill = false,
    behind = false,
    beside = false,
    isForeign = false,
    source,
    isRecovery = false,
  }: Asked = {},
) {
  const { repo } = rig;
  const view = rig.mirror.tenant(tenant);
  const place = { environment_id: id('environment'), server_id: id('server') };
  const of = { ...place, project_id: id('shop'), database_id: id('orders') };
  const unit = repo.begin();
  unit.create('user', id('root'), desiredState('user', { email: 'root@example.test', role: 'superadmin' }));
  unit.create('server', id('server'), desiredState('server', { agent_public_key: 'key' }));
  unit.create('backup_destination', id('store'), desiredState('backup_destination', { name: 'store' }));
  unit.create(
    'database',
    id('orders'),
    desiredState('database', {
      ...place,
      project_id: id('shop'),
      name: 'orders',
      type,
      version: type === 'redis' ? '8' : '17',
      data_volume_id: id('data'),
      run: isNew ? 'stopped' : 'running',
    }),
  );
  unit.create('volume', id('data'), desiredState('volume', { ...of, ...(isForeign && { database_id: id('other') }) }));
  unit.create('volume', id('fresh'), desiredState('volume', of));
  const backup = desiredState('backup', {
    project_id: id('shop'),
    place,
    of: ofDatabase(id('orders')),
    destination_id: id('store'),
  });
  unit.create('backup', id('good'), backup);
  const instance = desiredState('assignment', {
    server_id: id('server'),
    workload_kind: 'database',
    workload_id: id('orders'),
    version: id('data'),
  });
  if (!isNew) unit.create('assignment', id('serving'), instance);
  unit.create(
    'restore',
    id('back'),
    desiredState('restore', {
      project_id: id('shop'),
      place,
      ...(source === undefined ? { backup_id: id('good') } : { backup_id: id('none'), source }),
      of: { kind: 'database', id: id('orders') },
      volume_id: id('fresh'),
      is_new: isNew,
      ...(isDrill && { is_drill: true as const }),
      ...(isRecovery && { recovery: { ...recovery, archive_id: id('log') } }),
    }),
  );
  const log = { project_id: id('shop'), place, database_id: id('orders'), volume_id: id('data') };
  unit.create('wal_archive', id('log'), desiredState('wal_archive', log));
  if (behind) {
    const first = { is_drill: true as const, requested_at: '2025-12-31T23:59:00.000Z', volume_id: id('other fresh') };
    unit.create('volume', id('other fresh'), desiredState('volume', { ...of, name: 'other fresh' }));
    unit.create(
      'restore',
      id('before'),
      desiredState('restore', {
        project_id: id('shop'),
        place,
        backup_id: id('good'),
        of: { kind: 'database', id: id('orders') },
        ...first,
      }),
    );
  }
  if (beside)
    unit.create(
      'restore',
      id('beside'),
      desiredState('restore', {
        project_id: id('shop'),
        place,
        backup_id: id('good'),
        of: { kind: 'database', id: id('orders') },
        volume_id: id('other fresh'),
      }),
    );
  await commit(unit);
  const taskId = assignmentId.task(id('back'), 'restore');
  const sideId = assignmentId.task(id('back'), 'instance');
  const recoveryId = assignmentId.task(id('back'), 'recovery');
  const own = () => view.get('restore', id('back'));
  const it = {
    view,
    own,
    observed: () => own()?.observed,
    phase: () => own()?.observed?.phase,
    condition: () => {
      const found = own()?.observed?.conditions.find(({ type: of }) => of === 'Ready');
      return found && [found.status, found.reason, found.message];
    },
    side: () => view.get('assignment', sideId),
    task: () => view.get('assignment', taskId),
    volume: (name: string) => view.get('volume', id(name)),
    /** Until a volume goes by itself. */
    daysLeft: (name: string) =>
      (Date.parse(view.get('volume', id(name))?.desired.expires_at ?? '') - rig.clock.now().getTime()) / day,
    pointer: () => view.get('database', id('orders'))?.desired.data_volume_id,
    isRun: () => view.get('database', id('orders'))?.desired.run,
    fresh: (phase: ObservedOf<'volume'>['phase']) => observe('volume', id('fresh'), { phase }),
    server: (phase: ObservedOf<'server'>['phase']) => observe('server', id('server'), { phase }),
    ofSide: (report: Partial<ObservedOf<'assignment'>>) => observe('assignment', sideId, reported(report)),
    ofTask: (report: Partial<ObservedOf<'assignment'>>) => observe('assignment', taskId, reported(report)),
    ofRecovery: (report: Partial<ObservedOf<'assignment'>>) => observe('assignment', recoveryId, reported(report)),
    /** The bucket was asked which segments it has. */
    archive: (observed: Partial<ObservedOf<'wal_archive'>>) =>
      observe('wal_archive', id('log'), { phase: 'archiving', gaps: [], ...observed }),
    /** The database serves from its new volume, or is about to. */
    serves: async (report: Partial<ObservedOf<'assignment'>>) => {
      const which = id('serving from fresh');
      if ((await repo.get('assignment', which)) === undefined) {
        const made = repo.begin();
        made.create('assignment', which, { ...instance, version: id('fresh') });
        await commit(made);
      }
      await observe('assignment', which, reported(report));
    },
    /** The instance is ready, by a report of an earlier generation first and then by one of the present one. */
    servesAnew: async () => {
      const which = id('serving from fresh');
      const made = repo.begin();
      const serving = made.create('assignment', which, { ...instance, version: id('fresh') });
      made.change(serving, (draft) => void (draft.workload_name = 'another'));
      await commit(made);
      const found = (await repo.get('assignment', which))!;
      const report = reported(up);
      const of = (observedGeneration: number) => ({ ...report, observedGeneration, conditions: [] });
      await repo.observe(found, of(found.meta.generation - 1), []);
      await rig.rest();
      await repo.observe((await repo.get('assignment', which))!, of(found.meta.generation), []);
      await rig.rest();
    },
    /** The agent is done with an assignment. */
    gone: async (which: 'side' | 'task' | 'recovery') => {
      const release = repo.begin();
      const ids = { side: sideId, task: taskId, recovery: recoveryId };
      release.release((await repo.get('assignment', ids[which]))!, 'agent');
      await commit(release);
      await rig.rest();
    },
    cancel: async () => {
      await repo.change('restore', id('back'), (draft) => void (draft.cancel_requested = true));
      await rig.rest();
    },
    change: async (change: (draft: DesiredOf<'database'>) => void) => {
      await repo.change('database', id('orders'), change);
      await rig.rest();
    },
    remove: async (kind: 'backup' | 'server' | 'database' | 'restore' | 'backup_destination', which: string) => {
      const removal = repo.begin();
      removal.requestDelete((await repo.get(kind, id(which)))!);
      await commit(removal);
      await rig.rest();
    },
    pass: async (ms: number) => {
      await rig.clock.advance(ms);
      await rig.rest();
    },
    told: () => view.list('notification').map(({ desired }) => `${desired.type}: ${desired.message}`),
    /** Nothing is written, however often it is looked at, and no message names a time. */
    quiet: async () => {
      const before = await rig.store.revision();
      rig.controllers.resync();
      await rig.rest();
      expect(await rig.store.revision()).toBe(before);
      for (const { message } of own()?.observed?.conditions ?? []) expect(message).not.toMatch(/\d\d:\d\d|20\d\d-/);
    },
  };
  async function observe<K extends Observable>(kind: K, which: string, observed: ObservedOf<K>): Promise<void> {
    const found = (await repo.get(kind, which))! as ReadonlyResource<K>; // a union of kinds is not narrowed
    await repo.observe(found, { ...observed, observedGeneration: found.meta.generation, conditions: [] }, []);
    await rig.rest();
  }
  const whole = { size_bytes: 500, dump_bytes: 900, checksum_sha256: 'ab12', verified_at: at, finished_at: at };
  await observe('backup', id('good'), { phase: 'completed', ...whole });
  await it.server('active');
  await observe('database', id('orders'), { phase: isNew ? 'stopped' : 'running' });
  if (!isNew) await observe('assignment', id('serving'), reported(up));
  return it;
}

function reported(report: Partial<ObservedOf<'assignment'>>): ObservedOf<'assignment'> {
  return kinds.assignment.observed.parse({ phase: 'running', ...report });
}

type It = Awaited<ReturnType<typeof asked>>;

/** Until all of it was read, and nothing but the switch is left to do. */
async function restored(rig: Rig, options: Asked = {}): Promise<It> {
  const it = await asked(rig, options);
  await it.fresh('available');
  if (options.type === 'redis') {
    await it.ofTask({ phase: 'running' });
    await it.ofTask({ phase: 'succeeded', result: { dump_bytes: 900 } });
    await it.ofSide(up);
  } else {
    await it.ofSide(up);
    await it.ofTask({ phase: 'running' });
    await it.ofTask({ phase: 'succeeded', result: { dump_bytes: 900 } });
  }
  expect([it.phase(), it.side()?.desired.run, it.pointer()]).toEqual(['switching', 'stopped', id('data')]);
  return it;
}

/** The pointer of the database is changed. */
async function switched(rig: Rig, options: Asked = {}): Promise<It> {
  const it = await restored(rig, options);
  await it.ofSide({ phase: 'stopped' });
  await it.gone('side');
  expect([it.phase(), it.pointer()]).toEqual(['switching', id('fresh')]);
  return it;
}

/** A recovery that has what is wanted, and waits for a user. */
async function held(rig: Rig): Promise<It> {
  const it = await asked(rig, { isRecovery: true });
  await it.fresh('available');
  await it.archive({ checked_for: it.own()?.meta.createdRevision });
  await it.ofTask({ phase: 'running' });
  await it.ofTask({ phase: 'succeeded', result: { dump_bytes: 900 } });
  await it.ofSide(up);
  await it.ofRecovery({ phase: 'succeeded', result: { timeline: 2 } });
  expect(it.phase()).toBe('ready_to_switch');
  return it;
}

/** It failed: the database is as it was, and nothing of the restore is left; `hasServed`: but the volume that it served from for a while. */
async function undone(it: It, code: string, hasServed = false): Promise<void> {
  expect(it.observed()).toMatchObject({ phase: 'failed', error: { code } });
  expect(it.pointer()).toBe(id('data'));
  for (const which of ['side', 'task'] as const) if (it[which]() !== undefined) await it.gone(which);
  expect([it.side(), it.task()]).toEqual([undefined, undefined]);
  const fresh = it.volume('fresh');
  expect([fresh?.meta.deletionRequestedAt === undefined, fresh?.desired.expires_at !== undefined]).toEqual([
    hasServed,
    hasServed,
  ]);
  expect(it.volume('data')?.meta.deletionRequestedAt).toBeUndefined();
  expect(it.volume('data')?.desired.expires_at).toBeUndefined();
  expect(it.condition()?.slice(0, 2)).toEqual(['false', 'Failed']);
}

describe('by a program of the engine', () => {
  test('an empty instance beside the one that serves reads the backup, ends, and the database serves what it read', async () => {
    await using rig = await openRig({ controllers });
    const it = await asked(rig);
    expect(it.condition()).toEqual(['false', 'Pending', 'It waits for its new volume to be on its server']);
    expect([it.side(), it.task()]).toEqual([undefined, undefined]);
    await it.quiet();
    await it.fresh('available');
    expect(it.phase()).toBe('preparing');
    expect(it.side()?.desired).toMatchObject({ service: sideService, version: id('fresh'), run: 'running' });
    expect(it.task()).toBeUndefined();
    await it.quiet();
    await it.ofSide(up);
    expect([it.phase(), it.condition()?.[1]]).toEqual(['restoring', 'Restoring']);
    expect(it.task()?.desired).toMatchObject({
      workload_kind: 'restore',
      spec: {
        type: 'restore',
        engine: 'postgres',
        instance: it.side()?.meta.id,
        volume: `sp-vol-${id('fresh')}`,
        size_bytes: 500,
        dump_bytes: 900,
        checksum_sha256: 'ab12',
      },
    });
    await it.ofTask({ phase: 'running' });
    await it.quiet();
    expect(it.pointer()).toBe(id('data'));
    await it.ofTask({ phase: 'succeeded', result: { dump_bytes: 900 } });
    expect([it.phase(), it.side()?.desired.run, it.pointer()]).toEqual(['switching', 'stopped', id('data')]);
    await it.ofSide({ phase: 'stopped' });
    expect(it.pointer()).toBe(id('data'));
    await it.gone('side');
    expect(it.observed()).toMatchObject({ phase: 'switching', former_volume_id: id('data') });
    expect(it.pointer()).toBe(id('fresh'));
    expect(it.volume('data')?.desired.expires_at).toBeUndefined();
    await it.quiet();
    await it.serves({ ready: false });
    await it.pass(minute);
    expect(it.phase()).toBe('switching');
    await it.serves(up);
    expect([it.phase(), it.condition()]).toEqual(['completed', ['true', 'Completed', expect.any(String)]]);
    expect(it.daysLeft('data')).toBeCloseTo(7, 2);
    await it.gone('task');
    expect(it.volume('fresh')?.meta.deletionRequestedAt).toBeUndefined();
    expect(it.told()).toEqual([expect.stringContaining('restore_completed: ')]);
    await it.quiet();
    expect(it.told()).toHaveLength(1);
  });

  test.each<[NonNullable<Asked['source']>, string]>([
    [{ by: 'upload', id: id('sent'), size_bytes: 5 }, id('sent')],
    [{ by: 'path', path: 'orders.sql', size_bytes: 5 }, 'orders.sql'],
    [{ by: 'url', address: { $sealed: 'x', for: 'y' }, shown: 'https://dumps.example.test/a' }, ''],
  ])('a dump that somebody brings is read as a backup is, without one: %j', async (source, name) => {
    await using rig = await openRig({ controllers });
    const it = await asked(rig, { source });
    await it.fresh('available');
    await it.ofSide(up);
    expect(it.task()?.desired.spec).toMatchObject({
      type: 'restore',
      instance: it.side()?.meta.id,
      source: { by: source.by, name, database: 'app' },
    });
    expect(JSON.stringify(it.task())).not.toContain('$sealed');
    await it.ofTask({ phase: 'succeeded', result: { dump_bytes: 900 } });
    await it.ofSide({ phase: 'stopped' });
    await it.gone('side');
    expect(it.pointer()).toBe(id('fresh'));
    await it.serves(up);
    expect(it.phase()).toBe('completed');
  });

  test('what was begun goes on while the instance is not ready for a moment', async () => {
    await using rig = await openRig({ controllers });
    const it = await asked(rig);
    await it.fresh('available');
    await it.ofSide(up);
    await it.ofTask({ phase: 'running' });
    await it.ofSide({ ready: false });
    expect([it.phase(), it.task()?.meta.deletionRequestedAt]).toEqual(['restoring', undefined]);
  });
});

describe('by files of the engine', () => {
  test('they are there before an instance begins, which shows by being ready that it could read them', async () => {
    await using rig = await openRig({ controllers });
    const it = await asked(rig, { type: 'redis' });
    await it.fresh('available');
    expect([it.phase(), it.side()]).toEqual(['restoring', undefined]);
    expect(it.task()?.desired.spec).toMatchObject({ type: 'restore', engine: 'redis' });
    expect(it.task()?.desired.spec).not.toHaveProperty('instance');
    await it.ofTask({ phase: 'running' });
    await it.quiet();
    await it.ofTask({ phase: 'succeeded', result: { dump_bytes: 900 } });
    expect([it.phase(), it.side()?.desired.run]).toEqual(['preparing', 'running']);
    await it.quiet();
    await it.ofSide(up);
    expect([it.phase(), it.side()?.desired.run, it.pointer()]).toEqual(['switching', 'stopped', id('data')]);
    await it.ofSide({ phase: 'stopped' });
    await it.gone('side');
    expect(it.pointer()).toBe(id('fresh'));
    await it.serves(up);
    expect(it.phase()).toBe('completed');
    await it.gone('task');
    await it.quiet();
  });

  test('an instance that cannot read them is a failure', async () => {
    await using rig = await openRig({ controllers });
    const it = await asked(rig, { type: 'redis' });
    await it.fresh('available');
    await it.ofTask({ phase: 'succeeded', result: { dump_bytes: 900 } });
    await it.ofSide({ phase: 'failed', crash_loop: true, error: { code: 'exited', message: 'It ended with 1' } });
    await undone(it, 'exited');
    expect(it.told()).toEqual(['restore_failed: Its instance does not start: It ended with 1']);
  });
});

describe('a failure leaves the database as it was, and removes the new volume', () => {
  const error = { code: 'restore_failed', message: 'pg_restore: role "ann" does not exist' };

  test.each<[string, string, (it: It) => Promise<void>]>([
    ['its server cannot make the volume', 'no_volume', (it) => it.fresh('error')],
    ['its volume does not come', 'timeout', (it) => it.pass(patience.prepareMs + minute)],
    ['its server is deleted', 'server_gone', (it) => it.remove('server', 'server')],
    ['it is cancelled', 'cancelled', (it) => it.cancel()],
    ['its backup is deleted', 'backup_gone', (it) => it.remove('backup', 'good')],
  ])('before it began: %s', async (_, code, fail) => {
    await using rig = await openRig({ controllers });
    const it = await asked(rig);
    await fail(it);
    await undone(it, code);
    await it.quiet();
    expect(it.told()).toHaveLength(code === 'cancelled' ? 0 : 1);
  });

  test.each<[string, string, (it: It) => Promise<void>]>([
    [
      'the instance does not start',
      'exited',
      (it) => it.ofSide({ phase: 'failed', error: { code: 'exited', message: 'It ended with 1' } }),
    ],
    ['the instance does not become ready', 'timeout', (it) => it.pass(patience.prepareMs + minute)],
    ['it is cancelled', 'cancelled', (it) => it.cancel()],
    ['its server is deleted', 'server_gone', (it) => it.remove('server', 'server')],
  ])('while it prepares: %s', async (_, code, fail) => {
    await using rig = await openRig({ controllers });
    const it = await asked(rig);
    await it.fresh('available');
    await it.ofSide({ phase: 'starting' });
    await fail(it);
    await undone(it, code);
  });

  test.each<[string, string, (it: It) => Promise<void>]>([
    ['the engine refuses it', error.code, (it) => it.ofTask({ phase: 'failed', error })],
    [
      'its server stays away',
      'timeout',
      async (it) => {
        await it.server('offline');
        expect(it.condition()?.[1]).toBe('ServerAway');
        await it.pass(patienceMs(taskRow('restore').deadlineSeconds * 1000) + minute);
      },
    ],
    ['it is cancelled', 'cancelled', (it) => it.cancel()],
    ['its server is deleted', 'server_gone', (it) => it.remove('server', 'server')],
  ])('while it reads: %s', async (_, code, fail) => {
    await using rig = await openRig({ controllers });
    const it = await asked(rig);
    await it.fresh('available');
    await it.ofSide(up);
    await it.ofTask({ phase: 'running' });
    await fail(it);
    await undone(it, code);
  });

  test('after all was read: it is cancelled before the switch', async () => {
    await using rig = await openRig({ controllers });
    const it = await restored(rig);
    await it.cancel();
    await undone(it, 'cancelled');
  });
});

test('an instance that is found ready again after its settings were written anew wakes the restore', async () => {
  await using rig = await openRig({ controllers });
  const it = await switched(rig);
  await it.serves({ phase: 'running', ready: true, stable: true });
  expect(it.phase()).toBe('completed');

  await using other = await openRig({ controllers });
  const again = await switched(other);
  await again.servesAnew();
  expect(again.phase()).toBe('completed');
});

test('what its server lost is thrown away and read anew into another volume, three times in all', async () => {
  await using rig = await openRig({ controllers });
  const it = await asked(rig);
  const tried = new Set<string>();
  for (let attempt = 1; attempt <= 3; attempt += 1) {
    const volume = it.observed()?.volume_id ?? id('fresh');
    tried.add(volume);
    const found = (await rig.repo.get('volume', volume))!;
    await rig.repo.observe(found, { phase: 'available', observedGeneration: 1, conditions: [] }, []);
    await rig.rest();
    await it.pass(1000); // an object has so many runs at once
    expect(it.side()?.desired.version).toBe(volume);
    await it.ofSide(up);
    await it.ofTask({ phase: 'lost' });
    if (attempt === 3) break;
    expect(it.phase()).toBe('preparing');
    for (const which of ['side', 'task'] as const) await it.gone(which);
    expect(it.view.get('volume', volume)?.meta.deletionRequestedAt).toBeDefined();
  }
  expect(tried.size).toBe(3);
  expect(it.observed()).toMatchObject({ phase: 'failed', error: { code: 'interrupted' } });
  expect(it.pointer()).toBe(id('data'));
  for (const which of ['side', 'task'] as const) await it.gone(which);
  for (const volume of tried) expect(it.view.get('volume', volume)?.meta.deletionRequestedAt).toBeDefined();
  expect(it.volume('data')?.meta.deletionRequestedAt).toBeUndefined();
  await it.quiet();
});

test('reading may take as long as its task, and is looked at seldom meanwhile', async () => {
  await using rig = await openRig({ controllers });
  const it = await asked(rig);
  await it.fresh('available');
  await it.ofSide(up);
  await it.ofTask({ phase: 'running' });
  await it.pass(patience.prepareMs + minute);
  const before = await rig.metric('setpoint_reconcile_total', { controller: 'restore' });
  await it.pass(4 * hour);
  expect(it.phase()).toBe('restoring');
  expect((await rig.metric('setpoint_reconcile_total', { controller: 'restore' })) - before).toBeLessThan(60);
});

test('the time in which others have the turn on its server is none of its time for reading', async () => {
  await using rig = await openRig({ controllers });
  const it = await asked(rig);
  await it.fresh('available');
  await it.ofSide(up);
  await it.ofTask({ phase: 'pending' });
  await it.pass(23 * hour);
  expect(it.phase()).toBe('restoring');
  await it.ofTask({ phase: 'running' });
  await it.pass(23 * hour);
  expect([it.phase(), it.task()?.meta.deletionRequestedAt]).toEqual(['restoring', undefined]);
  await it.pass(2 * hour);
  await undone(it, 'timeout');
});

test.each([false, true])(
  'one that gets no turn on its server for a day says so; it is a drill: %s',
  async (isDrill) => {
    await using rig = await openRig({ controllers });
    const it = await asked(rig, { isDrill });
    await it.fresh('available');
    await it.ofSide(up);
    await it.ofTask({ phase: 'pending' });
    await it.pass(day + minute);
    await undone(it, 'no_turn');
  },
);

test('the end of the instance beside the one that serves takes nothing of the time for the switch', async () => {
  await using rig = await openRig({ controllers });
  const it = await restored(rig);
  await it.pass(patience.switchMs - minute);
  await it.ofSide({ phase: 'stopped' });
  await it.gone('side');
  expect(it.pointer()).toBe(id('fresh'));
  await it.pass(patience.switchMs - minute);
  expect([it.phase(), it.pointer()]).toEqual(['switching', id('fresh')]);
  await it.serves(up);
  expect(it.phase()).toBe('completed');
});

test('an instance that does not end is given up', async () => {
  await using rig = await openRig({ controllers });
  const it = await restored(rig);
  await it.pass(patience.switchMs + minute);
  await undone(it, 'timeout');
});

test('a database that does not serve what was restored goes back to its former volume', async () => {
  await using rig = await openRig({ controllers });
  const it = await switched(rig);
  await it.serves({ ready: false });
  await it.pass(patience.switchMs - minute);
  expect(it.phase()).toBe('switching');
  await it.pass(2 * minute);
  await undone(it, 'not_serving', true);
  expect(it.told()).toEqual([expect.stringContaining('restore_failed: The database was not ready')]);
  await it.quiet();
  await it.remove('restore', 'back');
  expect([it.own(), it.volume('fresh')?.meta.deletionRequestedAt]).toEqual([undefined, undefined]);
});

test('a database whose server does not answer may serve what was restored, and does not go back', async () => {
  await using rig = await openRig({ controllers });
  const it = await switched(rig);
  await it.serves({ ready: false });
  await it.pass(patience.switchMs - minute);
  await it.server('offline');
  await it.pass(day);
  expect([it.phase(), it.pointer()]).toEqual(['switching', id('fresh')]);
  expect(it.condition()?.slice(0, 2)).toEqual(['unknown', 'ServerAway']);
  await it.server('active');
  await it.pass(patience.switchMs - minute);
  expect([it.phase(), it.pointer()]).toEqual(['switching', id('fresh')]);
  await it.serves(up);
  expect([it.phase(), it.volume('fresh')?.desired.expires_at]).toEqual(['completed', undefined]);
});

test('the week of the former volume begins once the database serves what was restored', async () => {
  await using rig = await openRig({ controllers });
  const it = await switched(rig);
  await it.server('offline');
  await it.pass(8 * day);
  expect([it.phase(), it.volume('data')?.desired.expires_at]).toEqual(['switching', undefined]);
  await it.server('active');
  await it.serves(up);
  expect(it.phase()).toBe('completed');
  expect(it.daysLeft('data')).toBeCloseTo(7, 2);
});

test('the former volume of a switch that goes on is not taken for what an earlier restore has left', async () => {
  await using rig = await openRig({ controllers });
  const it = await restored(rig);
  const own = it.own()!.desired;
  const unit = rig.repo.begin();
  unit.create('restore', id('earlier'), { ...own, volume_id: id('data') });
  await commit(unit);
  const failed = { phase: 'failed' as const, goes_back: true as const, observedGeneration: 1, conditions: [] };
  await rig.repo.observe((await rig.repo.get('restore', id('earlier')))!, failed, []);
  await rig.rest();
  await it.ofSide({ phase: 'stopped' });
  await it.gone('side');
  expect([it.phase(), it.pointer()]).toEqual(['switching', id('fresh')]);
  await it.serves({ ready: false });
  // nothing serves from it any more, which wakes both restores
  const data = (await rig.repo.get('volume', id('data')))!;
  await rig.repo.observe(data, { phase: 'available', observedGeneration: 1, conditions: [] }, []);
  await rig.rest();
  expect(it.volume('data')?.meta.deletionRequestedAt).toBeUndefined();
  await it.pass(patience.switchMs + minute);
  expect([it.phase(), it.pointer()]).toEqual(['failed', id('data')]);
});

test('a database does not go back to a volume that is being deleted', async () => {
  await using rig = await openRig({ controllers });
  const it = await switched(rig);
  await it.serves({ ready: false });
  const removal = rig.repo.begin();
  removal.requestDelete((await rig.repo.get('volume', id('data')))!);
  await commit(removal);
  await it.pass(patience.switchMs + minute);
  expect([it.phase(), it.observed()?.error?.code, it.pointer()]).toEqual(['failed', 'not_serving', id('fresh')]);
  expect(it.observed()?.error?.message).toContain('it still serves what was restored');
  expect(it.volume('fresh')?.desired.expires_at).toBeUndefined();
  expect(it.volume('fresh')?.meta.deletionRequestedAt).toBeUndefined();
});

test('a recovery waits until its archive was compared with the bucket after it was asked for, whatever clocks say', async () => {
  await using rig = await openRig({ controllers });
  const it = await asked(rig, { isRecovery: true });
  await it.fresh('available');
  const asOf = it.own()?.meta.createdRevision ?? 0;
  await it.archive({ checked_at: '2030-01-02T00:00:00.000Z', checked_for: asOf - 1 });
  expect([it.task(), it.condition()?.[2]]).toEqual([
    undefined,
    'It waits for its archive to be compared with what the bucket has',
  ]);
  await it.archive({ checked_at: '2020-01-01T00:00:00.000Z', checked_for: asOf });
  expect(it.task()?.desired.spec).toMatchObject({ type: 'restore' });
});

describe('a recovery that is held', () => {
  const wanted = async (rig: Rig) => {
    await rig.repo.change('restore', id('back'), (draft) => void (draft.switch_requested = true));
    await rig.rest();
  };

  test('is switched to once its server answers again', async () => {
    await using rig = await openRig({ controllers });
    const it = await held(rig);
    await it.server('offline');
    await wanted(rig);
    expect(it.phase()).toBe('switching');
    await it.pass(day);
    expect([it.phase(), it.volume('fresh')?.meta.deletionRequestedAt]).toEqual(['switching', undefined]);
    await it.server('active');
    await it.pass(patience.switchMs - minute);
    await it.ofSide({ phase: 'stopped' });
    await it.gone('side');
    expect(it.pointer()).toBe(id('fresh'));
  });

  test('keeps its volume for a week if the switch that a user wanted fails', async () => {
    await using rig = await openRig({ controllers });
    const it = await held(rig);
    await wanted(rig);
    await it.pass(patience.switchMs + minute);
    expect([it.phase(), it.observed()?.error?.code, it.pointer()]).toEqual(['failed', 'timeout', id('data')]);
    for (const which of ['side', 'task', 'recovery'] as const) await it.gone(which);
    expect(it.volume('fresh')?.meta.deletionRequestedAt).toBeUndefined();
    expect(it.daysLeft('fresh')).toBeCloseTo(7, 2);
    await it.pass(minute);
    await it.quiet();
  });

  test.each([
    ['a user cancels it', (it: It) => it.cancel(), 'cancelled'],
    ['no user answers for a week', (it: It) => it.pass(patience.holdMs + hour), 'timeout'],
  ])('goes with its volume where %s', async (_, end, code) => {
    await using rig = await openRig({ controllers });
    const it = await held(rig);
    await end(it);
    await undone(it, code);
  });

  test('is not ended by a clock that is ahead, nor as one was behind', async () => {
    await using rig = await openRig({ controllers });
    const it = await held(rig);
    rig.clock.jump(8 * day);
    rig.controllers.resync();
    await it.pass(minute);
    expect(it.phase()).toBe('ready_to_switch');

    await using other = await openRig({ controllers, clock: new FakeClock('2025-12-20T00:00:00.000Z') });
    const behind = await held(other);
    other.clock.jump(13 * day);
    await behind.change((draft) => void (draft.display_name = 'Orders'));
    await using _ = other.replica('right', controllers);
    await other.controllers[Symbol.asyncDispose]();
    await behind.pass(day);
    expect(behind.phase()).toBe('ready_to_switch');
  });
});

test('one whose database went back before a crash stays back', async () => {
  await using rig = await openRig({ controllers });
  const it = await switched(rig);
  await rig.controllers[Symbol.asyncDispose]();
  const unit = rig.repo.begin();
  unit.change((await rig.repo.get('database', id('orders')))!, (draft) => void (draft.data_volume_id = id('data')));
  await commit(unit);
  const own = (await rig.repo.get('restore', id('back')))!;
  const state = { phase: 'switching' as const, former_volume_id: id('data'), goes_back: true as const };
  await rig.repo.observe(own, { ...state, observedGeneration: 1, conditions: [] }, []);
  await using _ = rig.replica('late', controllers);
  await rig.rest();
  expect([it.phase(), it.observed()?.error?.code, it.pointer()]).toEqual(['failed', 'not_serving', id('data')]);
});

test('one that is cancelled after the switch goes on', async () => {
  await using rig = await openRig({ controllers });
  const it = await switched(rig);
  await it.cancel();
  expect(it.phase()).toBe('switching');
  await it.serves(up);
  expect(it.phase()).toBe('completed');
});

test('a database that is stopped meanwhile has what was restored when it starts', async () => {
  await using rig = await openRig({ controllers });
  const it = await asked(rig);
  await it.fresh('available');
  await it.ofSide(up);
  await it.change((draft) => void (draft.run = 'stopped'));
  await it.ofTask({ phase: 'running' });
  await it.ofTask({ phase: 'succeeded', result: { dump_bytes: 900 } });
  await it.ofSide({ phase: 'stopped' });
  await it.gone('side');
  expect([it.phase(), it.pointer(), it.isRun()]).toEqual(['completed', id('fresh'), 'stopped']);
});

test('what is of another database is left alone, whatever is restored', async () => {
  await using rig = await openRig({ controllers });
  const it = await switched(rig, { isForeign: true });
  expect(it.volume('data')?.desired.expires_at).toBeUndefined();
  await it.serves(up);
  expect(it.phase()).toBe('completed');

  await using other = await openRig({ controllers });
  const anew = await switched(other, { isForeign: true, isNew: true });
  await anew.serves(up);
  expect([anew.phase(), anew.volume('data')?.meta.deletionRequestedAt]).toEqual(['completed', undefined]);
});

describe('a new database', () => {
  test('starts with what was restored, and its empty volume goes', async () => {
    await using rig = await openRig({ controllers });
    const it = await switched(rig, { isNew: true });
    expect(it.isRun()).toBe('running');
    await it.serves(up);
    expect([it.phase(), it.pointer()]).toEqual(['completed', id('fresh')]);
    expect(it.volume('data')?.meta.deletionRequestedAt).toBeDefined();
    expect(it.told()).toEqual([expect.not.stringContaining('former')]);
  });

  test('that does not serve what was restored is stopped, and never points to a volume that goes', async () => {
    await using rig = await openRig({ controllers });
    const it = await switched(rig, { isNew: true });
    await it.serves({ ready: false });
    await it.pass(patience.switchMs + minute);
    await undone(it, 'not_serving', true);
    expect(it.isRun()).toBe('stopped');
  });
});

test('a database that is deleted takes its restore with it', async () => {
  await using rig = await openRig({ controllers });
  const it = await asked(rig);
  await it.fresh('available');
  await it.ofSide(up);
  await it.ofTask({ phase: 'running' });
  await it.remove('database', 'orders');
  if (it.own()?.meta.deletionRequestedAt === undefined) await it.remove('restore', 'back');
  await it.gone('task');
  await it.gone('side');
  expect([it.own(), it.side(), it.task()]).toEqual([undefined, undefined, undefined]);
});

test('a restore that is deleted after it was completed leaves what the database serves from', async () => {
  await using rig = await openRig({ controllers });
  const it = await switched(rig);
  await it.serves(up);
  await it.gone('task');
  await it.pass(1000); // an object has so many runs at once
  await it.remove('restore', 'back');
  expect([it.own(), it.volume('fresh')?.meta.deletionRequestedAt]).toEqual([undefined, undefined]);
});

test('another leader goes on where the one before it ended', async () => {
  await using rig = await openRig({ controllers });
  const it = await switched(rig);
  rig.replica('second', [restoreController]);
  await rig.controllers[Symbol.asyncDispose]();
  await it.pass(minute);
  expect([it.phase(), it.pointer(), it.observed()?.former_volume_id]).toEqual(['switching', id('fresh'), id('data')]);
  await it.serves(up);
  await it.pass(day);
  expect(it.phase()).toBe('completed');
});

/** A store that does not answer what notes the state of the restore, as long as that is wanted. */
class Forgetful extends ForwardingStore {
  notesNothing = false;

  override async txn(txn: Txn): Promise<TxnResult> {
    const notes = keys.observed(tenant, 'restore', id('back'));
    if (this.notesNothing && txn.then.some((write) => 'put' in write && write.put === notes))
      throw unavailable('the state of the restore is not stored');
    return super.txn(txn);
  }
}

describe('what ended goes only after that was noted', () => {
  async function forgetting(options: Asked) {
    const stores: Forgetful[] = [];
    const wrap = (inner: Store) => {
      const store = new Forgetful(inner);
      stores.push(store);
      return store;
    };
    const rig = await openRig({ controllers, wrap });
    const it = await asked(rig, options);
    /** Its state cannot be stored while something happens, and the agent is done at once with all that is to go. */
    const unnoted = async (what: () => Promise<void>) => {
      for (const store of stores) store.notesNothing = true;
      await what();
      for (const which of ['side', 'task'] as const)
        if (it[which]()?.meta.deletionRequestedAt !== undefined) await it.gone(which);
      for (const store of stores) store.notesNothing = false;
      await it.pass(minute);
    };
    return { rig, it, unnoted };
  }

  test('a drill that went well is not begun anew', async () => {
    const { rig, it, unnoted } = await forgetting({ isDrill: true });
    await using _ = rig;
    await it.fresh('available');
    await it.ofSide(up);
    await it.ofTask({ phase: 'running' });
    await it.ofTask({ phase: 'succeeded', result: { dump_bytes: 900 } });
    await it.ofSide({ phase: 'stopped' });
    const made = it.task()?.meta.createdRevision;
    await unnoted(() => it.gone('side'));
    expect([it.phase(), it.task()?.meta.createdRevision]).toEqual(['completed', made]);
    await it.gone('task');
    expect([it.side(), it.volume('fresh')?.meta.deletionRequestedAt]).toEqual([undefined, expect.any(String)]);
    await it.quiet();
  });

  test('one that failed keeps its first reason', async () => {
    const { rig, it, unnoted } = await forgetting({});
    await using _ = rig;
    await it.fresh('available');
    await it.ofSide(up);
    const error = { code: 'no_space', message: 'The disk is full' };
    await unnoted(() => it.ofTask({ phase: 'failed', error }));
    await undone(it, 'no_space');
    expect(it.told()).toEqual(['restore_failed: The disk is full']);
  });

  test('what its server lost is not read into the same volume again', async () => {
    const { rig, it, unnoted } = await forgetting({});
    await using _ = rig;
    await it.fresh('available');
    await it.ofSide(up);
    await unnoted(() => it.ofTask({ phase: 'lost' }));
    expect(it.observed()).toMatchObject({ phase: 'preparing', attempt: 2 });
    for (const which of ['side', 'task'] as const) await it.gone(which);
    expect([it.task(), it.volume('fresh')?.meta.deletionRequestedAt]).toEqual([undefined, expect.any(String)]);
  });
});

describe('a drill', () => {
  test('reads the backup beside what serves, changes no pointer, and leaves nothing', async () => {
    await using rig = await openRig({ controllers });
    const it = await asked(rig, { isDrill: true });
    await it.fresh('available');
    const [alias] = JSON.stringify(it.side()?.desired.spec).match(/"aliases":\["[^"]*-drill"\]/) ?? [];
    expect([it.side()?.desired.service, alias]).toEqual([drillService, expect.any(String)]);
    await it.ofSide(up);
    await it.ofTask({ phase: 'running' });
    await it.ofTask({ phase: 'succeeded', result: { dump_bytes: 900 } });
    await it.ofSide({ phase: 'stopped' });
    await it.gone('side');
    expect([it.phase(), it.pointer()]).toEqual(['completed', id('data')]);
    expect(it.condition()).toEqual(['true', 'Completed', provenWords]);
    expect(it.observed()?.former_volume_id).toBeUndefined();
    await it.gone('task');
    expect(it.volume('fresh')?.meta.deletionRequestedAt).toBeDefined();
    expect(it.volume('data')?.desired.expires_at).toBeUndefined();
    expect(it.told()).toEqual([]);
  });

  test('whose files an engine can read ends the same', async () => {
    await using rig = await openRig({ controllers });
    const it = await restored(rig, { type: 'redis', isDrill: true });
    await it.ofSide({ phase: 'stopped' });
    await it.gone('side');
    expect([it.phase(), it.pointer()]).toEqual(['completed', id('data')]);
  });

  test('that fails leaves nothing either, and its backup tells of it', async () => {
    await using rig = await openRig({ controllers });
    const it = await asked(rig, { isDrill: true });
    await it.fresh('available');
    await it.ofSide(up);
    await it.ofTask({ phase: 'failed', error: { code: 'no_space', message: 'The disk is full' } });
    await undone(it, 'no_space');
    expect(it.told()).toEqual([]);
  });

  test('waits for the one before it on its server until nothing of that one is left', async () => {
    await using rig = await openRig({ controllers });
    const it = await asked(rig, { isDrill: true, behind: true });
    const before = (await rig.repo.get('restore', id('before')))!;
    const begun = { phase: 'restoring' as const, started_at: at, observedGeneration: 1, conditions: [] };
    await rig.repo.observe(before, begun, []);
    await it.fresh('available');
    expect(it.condition()?.[2]).toBe('It waits for the restores and drills before it on its server to end');
    await it.pass(hour);
    expect([it.phase(), it.side()]).toEqual(['pending', undefined]);
    await rig.repo.change('restore', id('before'), (draft) => void (draft.cancel_requested = true));
    await it.pass(2 * minute);
    expect(it.view.get('restore', id('before'))?.observed?.phase).toBe('failed');
    expect([it.phase(), it.side()]).toEqual(['pending', undefined]);
    const release = rig.repo.begin();
    release.release((await rig.repo.get('volume', id('other fresh')))!, 'volume');
    await commit(release);
    await it.pass(2 * minute);
    expect([it.phase(), it.side()?.desired.service]).toEqual(['preparing', drillService]);
  });

  test('waits for a restore for use on its server, but not while that is held', async () => {
    await using rig = await openRig({ controllers });
    const it = await asked(rig, { isDrill: true, beside: true });
    await it.fresh('available');
    await it.pass(minute);
    expect(it.condition()?.[2]).toBe('It waits for the restores and drills before it on its server to end');
    expect(it.side()).toBeUndefined();
    const held = { phase: 'ready_to_switch' as const, observedGeneration: 1, conditions: [] };
    await rig.repo.observe((await rig.repo.get('restore', id('beside')))!, held, []);
    await it.pass(2 * minute);
    expect([it.phase(), it.side()?.desired.service]).toEqual(['preparing', drillService]);
  });
});
