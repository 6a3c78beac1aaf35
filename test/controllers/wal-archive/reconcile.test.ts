import { expect, test } from 'vitest';
import { backupController } from '../../../controllers/backup/reconcile.ts';
import { walArchiveController } from '../../../controllers/wal-archive/reconcile.ts';
import { patience } from '../../../controllers/wal-archive/states.ts';
import { CallError } from '../../../agent-protocol/call-error.ts';
import { segmentAt } from '../../../databases/wal.ts';
import { logKey } from '../../../store/archive-keys.ts';
import { backupKeys } from '../../../store/backup-keys.ts';
import { assignmentId } from '../../../store/kinds/assignment-id.ts';
import type { ObservedOf } from '../../../store/kinds/kinds.ts';
import { kinds } from '../../../store/kinds/kinds.ts';
import type { ReadonlyResource } from '../../../store/resource.ts';
import { commit } from '../../../store/unit.ts';
import { MemoryBucket } from '../../harness/memory-bucket.ts';
import { desiredState, ofDatabase } from '../../harness/states.ts';
import { id, openRig, tenant } from '../runtime/rig.ts';
import type { Rig } from '../runtime/rig.ts';

const hour = 60 * 60_000;
const refused = { code: 'archive_refused', message: 'Segment 26 has other bytes than were sent under its name' };
const segment = (position: number): string => segmentAt({ timeline: 1, position });
const place = { environment_id: id('environment'), server_id: id('server') };

function controllersOf(bucket: MemoryBucket) {
  const secrets = { unseal: () => 'opened' };
  const agents = { call: () => Promise.reject(new CallError('away', 'The agent is not connected')) };
  return [backupController({ secrets, bucket, agents }), walArchiveController({ secrets, bucket })];
}

/** A database that is archived to `log`, of which one base backup stays. */
async function archived(rig: Rig, bucket: MemoryBucket) {
  const { repo } = rig;
  const view = rig.mirror.tenant(tenant);
  const senderId = assignmentId.task(id('log'), 'sender');
  const of = { ...place, project_id: id('shop') };
  const unit = repo.begin();
  unit.create('user', id('root'), desiredState('user', { email: 'root@example.test', role: 'superadmin' }));
  unit.create('server', id('server'), desiredState('server', { agent_public_key: 'key' }));
  unit.create('backup_destination', id('store'), desiredState('backup_destination', { name: 'store' }));
  unit.create(
    'database',
    id('orders'),
    desiredState('database', {
      ...of,
      name: 'orders',
      data_volume_id: id('data'),
      archive: { id: id('log'), destination_id: id('store'), retention_count: 1 },
    }),
  );
  unit.create(
    'wal_archive',
    id('log'),
    desiredState('wal_archive', {
      project_id: id('shop'),
      place,
      database_id: id('orders'),
      volume_id: id('data'),
      destination_id: id('store'),
    }),
  );
  const sender = { ...of, workload_kind: 'wal_archive' as const, workload_id: id('log'), version: id('log') };
  unit.create('assignment', senderId, desiredState('assignment', sender));
  await commit(unit);
  const archive = (await repo.get('wal_archive', id('log')))!;
  for (let position = 10; position <= 25; position += 1)
    bucket.objects.set(logKey(archive, segment(position)), { bytes: 512, etag: `${position}` });
  const destination = (phase: 'reachable' | 'unreachable', code?: string) =>
    observe('backup_destination', id('store'), {
      phase,
      ...(code !== undefined && { trouble: { code, message: 'It refused a probe' } }),
      probed_at: rig.clock.now().toISOString(),
      failures: 0,
      is_clock_off: false,
    });
  await destination('reachable');

  async function observe<K extends 'assignment' | 'backup' | 'backup_destination'>(
    kind: K,
    which: string,
    observed: ObservedOf<K>,
  ): Promise<void> {
    const found = (await repo.get(kind, which))! as ReadonlyResource<K>; // a union of kinds is not narrowed
    await repo.observe(found, { ...observed, observedGeneration: found.meta.generation, conditions: [] }, []);
    await rig.rest();
  }

  return {
    destination,
    /** The archive is deleted, and its sender has ended. */
    remove: async () => {
      const removal = repo.begin();
      removal.requestDelete((await repo.get('wal_archive', id('log')))!);
      await commit(removal);
      await rig.rest();
      const release = repo.begin();
      release.release((await repo.get('assignment', senderId))!, 'agent');
      await commit(release);
      await rig.rest();
    },
    archive: () => view.get('wal_archive', id('log')),
    phase: () => view.get('wal_archive', id('log'))?.observed?.phase,
    /** The sender has sent segments to this one, and all that was committed until now. */
    sent: (last: number, error?: { code: string; message: string }) => {
      const [until, name] = [rig.clock.now().toISOString(), segment(last)];
      const stand = { until, until_segment: name, last_segment: name, sent_at: until };
      const report = {
        phase: 'running',
        archive: { waiting: 0, fill_percent: 0, system_identifier: '7', ...stand },
        ...(error !== undefined && { error }),
      };
      return observe('assignment', senderId, kinds.assignment.observed.parse(report));
    },
    /** A base backup is completed, which needs the log from one segment to another. */
    based: async (name: string, first: number, last: number) => {
      const at = rig.clock.now().toISOString();
      const made = repo.begin();
      const wanted = { of: ofDatabase(id('orders')), method: 'physical' as const, archive_id: id('log') };
      const backup = made.create(
        'backup',
        id(name),
        desiredState('backup', {
          ...wanted,
          project_id: id('shop'),
          place,
          destination_id: id('store'),
          requested_at: at,
        }),
      );
      await commit(made);
      bucket.objects.set(backupKeys(backup).object, { bytes: 7, etag: name });
      const log = { first_segment: segment(first), last_segment: segment(last), stopped_at: at };
      const size = { size_bytes: 7, verified_at: at, finished_at: at };
      await observe('backup', id(name), { phase: 'completed', log, ...size });
    },
    base: (name: string) => {
      const it = view.get('backup', id(name));
      return [it?.observed?.phase, it?.desired.expires_at !== undefined];
    },
    segments: () => [...bucket.objects.keys()].filter((key) => key.includes('/wal/')).length,
    pass: async (ms: number) => {
      await rig.clock.advance(ms);
      await rig.rest();
    },
  };
}

test.each([
  ['is 20 minutes ahead', '2030-01-01T04:50:00.000Z'],
  ['is right', '2030-01-01T04:30:00.000Z'],
  ['is 50 minutes behind', '2030-01-01T03:40:00.000Z'],
])(
  'the bucket is asked once for a recovery, where the clock of the replica that took it %s',
  async (_, requested_at) => {
    const bucket = new MemoryBucket();
    await using rig = await openRig({ controllers: controllersOf(bucket) });
    const it = await archived(rig, bucket);
    await it.based('first', 10, 11);
    await it.sent(25);
    await it.pass(4.5 * hour - 60_000);
    await it.sent(25);
    await it.pass(60_000);
    const unit = rig.repo.begin();
    const [first_segment, last_segment] = [segment(10), segment(25)];
    const recovery = { archive_id: id('log'), target_time: requested_at, first_segment, last_segment, holds: true };
    const of = { kind: 'database' as const, id: id('orders') };
    const asked = { project_id: id('shop'), place, of, requested_at, recovery };
    unit.create('restore', id('back'), desiredState('restore', asked));
    const before = bucket.calls;
    await commit(unit);
    await rig.rest();
    const once = bucket.calls - before;
    expect(once).toBeGreaterThan(0);
    await it.pass(30_000);
    expect(bucket.calls - before).toBe(once);
    const { checked_for } = it.archive()?.observed ?? {};
    expect(checked_for).toBe((await rig.repo.get('restore', id('back')))?.meta.createdRevision);
  },
);

test('the log of an archive that is deleted goes once its bucket can be reached, which is asked nothing before', async () => {
  const bucket = new MemoryBucket();
  await using rig = await openRig({ controllers: controllersOf(bucket) });
  const it = await archived(rig, bucket);
  await it.destination('unreachable');
  const before = bucket.calls;
  await it.remove();
  await it.pass(2 * hour);
  expect([bucket.calls - before, it.segments(), it.archive() !== undefined]).toEqual([0, 16, true]);
  await it.destination('reachable');
  await it.pass(15_000);
  expect([it.segments(), it.archive()]).toEqual([0, undefined]);
});

test.each([
  ['is full', 'no_space', 6],
  ['does not answer', 'timeout', 16],
])(
  'what the log of a bucket that %s has before the first base backup goes as soon as it answers',
  async (_, code, left) => {
    const bucket = new MemoryBucket();
    await using rig = await openRig({ controllers: controllersOf(bucket) });
    const it = await archived(rig, bucket);
    await it.based('first', 20, 21);
    await it.destination('unreachable', code);
    await it.sent(25);
    await it.pass(2 * patience.lookMs);
    expect([it.segments(), it.archive()?.observed?.checked_at]).toEqual([left, undefined]);
    await it.destination('reachable');
    await it.pass(2 * patience.lookMs);
    expect([it.segments(), it.archive()?.observed?.checked_at]).toEqual([6, expect.any(String)]);
  },
);

test('base backups whose log stays on its server end none that can be read, until their log is sent', async () => {
  const bucket = new MemoryBucket();
  await using rig = await openRig({ controllers: controllersOf(bucket) });
  const it = await archived(rig, bucket);
  await it.based('first', 10, 11);
  await it.pass(hour);
  await it.based('second', 20, 21);
  await it.pass(hour);
  await it.sent(25);
  await it.pass(2 * patience.checkMs);
  expect([it.base('first'), it.base('second'), it.segments()]).toEqual([['expired', true], ['completed', false], 6]);

  await it.sent(25, refused);
  await it.based('third', 30, 31);
  await it.pass(hour);
  await it.based('fourth', 40, 41);
  await it.pass(48 * hour);
  expect([it.phase(), it.base('second'), it.segments()]).toEqual(['broken', ['completed', false], 6]);

  for (let position = 26; position <= 50; position += 1)
    bucket.objects.set(logKey(it.archive()!, segment(position)), { bytes: 512, etag: `${position}` });
  await it.sent(50);
  await it.pass(2 * patience.checkMs);
  expect([it.base('second'), it.base('third'), it.base('fourth'), it.segments()]).toEqual([
    ['expired', true],
    ['expired', true],
    ['completed', false],
    11,
  ]);
});
