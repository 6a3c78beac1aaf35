import { describe, expect, test } from 'vitest';
import { backupController } from '../../../controllers/backup/reconcile.ts';
import { patience } from '../../../controllers/backup/states.ts';
import { removalPatience } from '../../../controllers/backup-destination/removal.ts';
import { patienceMs } from '../../../controllers/task/task.ts';
import { taskRow } from '../../../agent-protocol/task-types.ts';
import { segmentAt } from '../../../databases/wal.ts';
import { backupKeys } from '../../../store/backup-keys.ts';
import { assignmentId } from '../../../store/kinds/assignment-id.ts';
import type { DesiredOf, ObservedOf } from '../../../store/kinds/kinds.ts';
import { kinds } from '../../../store/kinds/kinds.ts';
import type { ReadonlyResource } from '../../../store/resource.ts';
import { commit } from '../../../store/unit.ts';
import type { CommittableUnit } from '../../../store/unit-of-work.ts';
import { BucketTrouble } from '../../../controllers/backup/bucket.ts';
import type { BucketPlace } from '../../../network/bucket.ts';
import { MemoryBucket } from '../../harness/memory-bucket.ts';
import { CallError } from '../../../agent-protocol/call-error.ts';
import { desiredState, ofDatabase } from '../../harness/states.ts';
import { id, openRig, tenant } from '../runtime/rig.ts';
import type { Rig } from '../runtime/rig.ts';

const now = '2030-01-01T00:00:00.000Z';
const minute = 60_000;
const hour = 60 * minute;
const day = 24 * hour;
const folder = `${tenant}/${id('shop')}/${id('orders')}/backups`;
const object = `${folder}/${id('first')}/dump.zst`;
const manifest = `${folder}/${id('first')}/manifest.json`;
const refused = { code: 'refused', message: 'Nothing listens there: check endpoint', isPassing: true };
const wrongKeys = { code: 'wrong_secret', message: 'The secret key is another one: copy it', isPassing: false };
const result = { size_bytes: 500, dump_bytes: 900, checksum_sha256: 'ab12', etag: 'of-parts-2', parts: 2 };

/** @param usage bytes that each volume takes; absent: the agent is away */
function controllerOf(bucket: MemoryBucket, usage?: number) {
  const agents = {
    async call(): Promise<unknown> {
      if (usage === undefined) throw new CallError('away', 'The agent is not connected');
      return { bytes: usage };
    },
  };
  return backupController({ secrets: { unseal: () => 'opened' }, bucket, agents });
}

interface Asked {
  backup?: Partial<DesiredOf<'backup'>>;
  database?: Partial<DesiredOf<'database'>>;
  /** What is not there when the backup is asked for. */
  without?: 'database' | 'server' | 'destination';
  /** Further writes of the same transaction. */
  also?: (unit: CommittableUnit) => void;
}

/** A backup of a database that serves on a server that answers, to a destination that can be reached. */
async function asked(rig: Rig, { backup = {}, database = {}, without, also }: Asked = {}) {
  const { repo, clock } = rig;
  const view = rig.mirror.tenant(tenant);
  const unit = repo.begin();
  unit.create('user', id('root'), desiredState('user', { email: 'root@example.test', role: 'superadmin' }));
  if (without !== 'server') unit.create('server', id('server'), desiredState('server', { agent_public_key: 'key' }));
  if (without !== 'database')
    unit.create(
      'database',
      id('orders'),
      desiredState('database', { name: 'orders', project_id: id('shop'), data_volume_id: id('data'), ...database }),
    );
  if (without !== 'destination')
    unit.create('backup_destination', id('store'), desiredState('backup_destination', { name: 'store' }));
  const instance = desiredState('assignment', {
    server_id: id('server'),
    workload_kind: 'database',
    workload_id: id('orders'),
    version: id('data'),
  });
  if (without !== 'server') unit.create('assignment', id('instance'), instance);
  const wanted = desiredState('backup', {
    project_id: id('shop'),
    place: { environment_id: id('environment'), server_id: id('server') },
    of: ofDatabase(id('orders')),
    destination_id: id('store'),
    requested_at: '2030-01-01T00:00:00.000Z',
    ...backup,
  });
  unit.create('backup', id('first'), wanted);
  also?.(unit);
  await commit(unit);
  const taskId = assignmentId.task(id('first'), 'backup');
  const own = () => view.get('backup', id('first'));
  const it = {
    view,
    own,
    task: () => view.get('assignment', taskId),
    observed: () => own()?.observed,
    phase: () => own()?.observed?.phase,
    condition: (type = 'Ready') => {
      const found = own()?.observed?.conditions.find((one) => one.type === type);
      return found && [found.status, found.reason, found.message];
    },
    database: (phase: ObservedOf<'database'>['phase']) => observe('database', id('orders'), { phase }),
    volume: (phase: ObservedOf<'volume'>['phase']) => observe('volume', id('notes'), { phase }),
    server: (phase: ObservedOf<'server'>['phase']) => observe('server', id('server'), { phase }),
    /** `code`: of the trouble that its probes find. */
    destination: (phase: 'reachable' | 'unreachable', code?: string) =>
      observe('backup_destination', id('store'), {
        phase,
        probed_at: now,
        failures: 0,
        is_clock_off: false,
        ...(code !== undefined && { trouble: { code, message: 'In trouble' } }),
      }),
    instance: (ready: boolean) => observe('assignment', id('instance'), reported({ phase: 'running', ready })),
    report: (report: Partial<ObservedOf<'assignment'>>) => observe('assignment', taskId, reported(report)),
    /** All bytes were sent. */
    sent: (changes: object = {}) =>
      observe('assignment', taskId, reported({ phase: 'succeeded', result: { ...result, ...changes } })),
    change: async (change: (draft: DesiredOf<'backup'>) => void) => {
      await repo.change('backup', id('first'), change);
      await rig.rest();
    },
    remove: async (kind: 'backup' | 'server' | 'database' | 'volume' | 'backup_destination', which: string) => {
      const removal = repo.begin();
      removal.requestDelete((await repo.get(kind, which))!);
      await commit(removal);
      await rig.rest();
    },
    /** The agent has ended the task, and is done with it. */
    taskGone: async () => {
      const release = repo.begin();
      release.release((await repo.get('assignment', taskId))!, 'agent');
      await commit(release);
      await rig.rest();
    },
    pass: async (ms: number) => {
      await clock.advance(ms);
      await rig.rest();
    },
    told: () =>
      view
        .list('notification')
        .map(({ desired }) => `${desired.type}: ${desired.message}`)
        .toSorted(),
    /** Nothing is written, however often it is looked at, and no message names a time. */
    quiet: async () => {
      const before = await rig.store.revision();
      rig.controllers.resync();
      await rig.rest();
      expect(await rig.store.revision()).toBe(before);
      for (const { message } of own()?.observed?.conditions ?? []) expect(message).not.toMatch(/\d\d:\d\d|20\d\d-/);
    },
  };
  async function observe<K extends 'database' | 'volume' | 'server' | 'backup_destination' | 'assignment'>(
    kind: K,
    which: string,
    observed: ObservedOf<K>,
  ): Promise<void> {
    const found = (await repo.get(kind, which))! as ReadonlyResource<K>; // a union of kinds is not narrowed
    await repo.observe(found, { ...observed, observedGeneration: found.meta.generation, conditions: [] }, []);
    await rig.rest();
  }
  if (without !== 'server') await it.server('active');
  if (without !== 'destination') await it.destination('reachable');
  if (without !== 'database') await it.database('running');
  if (without !== 'server') await it.instance(true);
  await rig.rest();
  return it;
}

function reported(report: Partial<ObservedOf<'assignment'>>): ObservedOf<'assignment'> {
  return kinds.assignment.observed.parse({ phase: 'running', ...report });
}

async function completed(rig: Rig, options: Asked = {}) {
  const it = await asked(rig, options);
  await it.report({ phase: 'running' });
  await it.sent();
  expect(it.phase()).toBe('completed');
  await it.taskGone();
  return it;
}

test.each([
  ['5 MiB where the volume is small', 2 * 2 ** 30, 5],
  ['more where it is large', 100 * 2 ** 30, 41],
  ['32 MiB where the agent does not say', undefined, 32],
])('the first backup of a database has parts of %s', async (_, usage, mebibytes) => {
  await using rig = await openRig({ controllers: [controllerOf(new MemoryBucket(), usage)] });
  const it = await asked(rig);
  expect(it.task()?.desired.spec).toMatchObject({ type: 'backup', part_bytes: mebibytes * 2 ** 20 });
});

test('a backup is sent by the server of its database, and is completed once the bucket has all of it', async () => {
  const bucket = new MemoryBucket();
  await using rig = await openRig({ controllers: [controllerOf(bucket)] });
  const it = await asked(rig);
  const [upload] = [...bucket.uploads];
  expect(upload).toEqual([it.observed()?.upload_id, object]);
  expect(it.phase()).toBe('pending');
  expect(it.task()?.desired).toMatchObject({
    workload_kind: 'backup',
    workload_id: id('first'),
    server_id: id('server'),
    spec: { type: 'backup', engine: 'postgres', instance: id('instance'), attempt: 1 },
  });
  await it.quiet();
  await it.report({ phase: 'running' });
  expect([it.phase(), it.condition()?.[1]]).toEqual(['running', 'Running']);
  await it.quiet();
  await it.sent();
  expect(it.observed()).toMatchObject({
    phase: 'completed',
    size_bytes: 500,
    dump_bytes: 900,
    checksum_sha256: 'ab12',
    etag: 'of-parts-2',
  });
  expect(it.observed()).not.toHaveProperty('upload_id');
  expect(it.condition()).toEqual(['true', 'Completed', expect.any(String)]);
  expect(bucket.objects.get(object)).toEqual({ bytes: 500, etag: 'of-parts-2' });
  expect(JSON.parse(bucket.objects.get(manifest)?.text ?? '')).toMatchObject({
    format: 'setpoint-backup/1',
    id: id('first'),
    size_bytes: 500,
    dump_bytes: 900,
    checksum_sha256: 'ab12',
    engine: { type: 'postgres', version: '17' },
  });
  await it.taskGone();
  expect([it.task(), it.told()]).toEqual([undefined, []]);
  await it.quiet();
});

describe('of an upload with parts that an interrupted attempt left', () => {
  const surplus = { code: 'parts_differ', message: 'The bucket still has parts of another attempt', isPassing: false };

  test('another one begins, and the server sends again', async () => {
    const bucket = new MemoryBucket();
    await using rig = await openRig({ controllers: [controllerOf(bucket)] });
    const it = await asked(rig);
    const [first] = bucket.uploads.keys();
    await it.report({ phase: 'running' });
    bucket.refused.set(first ?? '', surplus);
    const sentFirst = it.task()?.desired;
    await it.sent();
    const second = [...bucket.uploads.keys()].at(-1);
    expect([second === first, it.observed()?.upload_id]).toEqual([false, second]);
    expect([it.phase(), it.condition()?.[1]]).toEqual(['running', 'Running']);
    expect(it.task()?.desired.spec_hash).not.toBe(sentFirst?.spec_hash);
    expect(it.task()?.desired.spec).toEqual(sentFirst?.spec);
    await it.quiet();
    await it.report({ phase: 'running' });
    await it.sent();
    expect([it.phase(), bucket.uploads.size, bucket.objects.get(object)?.bytes]).toEqual(['completed', 0, 500]);
    await it.taskGone();
    expect([it.task(), it.told()]).toEqual([undefined, []]);
    await it.quiet();
  });

  test('it fails with the third one, and none is left', async () => {
    const bucket = new MemoryBucket();
    await using rig = await openRig({ controllers: [controllerOf(bucket)] });
    const it = await asked(rig);
    const seen = new Set<string>();
    for (let upload = 1; upload <= 3; upload += 1) {
      const { upload_id: now = '' } = it.observed() ?? {};
      expect([it.phase() === 'failed', bucket.uploads.size]).toEqual([false, upload]);
      seen.add(now);
      bucket.refused.set(now, surplus);
      await it.report({ phase: 'running' });
      await it.sent();
      await it.pass(minute);
    }
    expect([seen.size, it.phase(), it.observed()?.error]).toEqual([
      3,
      'failed',
      { code: surplus.code, message: surplus.message },
    ]);
    await it.taskGone();
    expect([it.task(), bucket.uploads.size, bucket.objects.size]).toEqual([undefined, 0, 0]);
    await it.quiet();
  });

  test('one that is cancelled before the server has sent again leaves none', async () => {
    const bucket = new MemoryBucket();
    await using rig = await openRig({ controllers: [controllerOf(bucket)] });
    const it = await asked(rig);
    bucket.refused.set(it.observed()?.upload_id ?? '', surplus);
    await it.report({ phase: 'running' });
    await it.sent();
    await it.change((draft) => void (draft.cancel_requested = true));
    await it.taskGone();
    expect([it.phase(), it.task(), bucket.uploads.size]).toEqual(['failed', undefined, 0]);
  });
});

test.each([
  ['its server answers', 'its server to answer', 'server', 'offline', 'active'],
  ['its database serves', 'database orders to serve', 'database', 'stopped', 'running'],
  ['its destination can be reached', 'destination store to be reachable', 'destination', 'unreachable', 'reachable'],
] as const)('waits until %s', async (_, waits, what, not, yes) => {
  const bucket = new MemoryBucket();
  await using rig = await openRig({ controllers: [] });
  const it = await asked(rig);
  await it[what](not as never); // each has phases of its own
  rig.replica('second', [controllerOf(bucket)]);
  await rig.controllers[Symbol.asyncDispose]();
  await it.pass(minute);
  expect([it.phase(), it.task(), bucket.uploads.size]).toEqual(['pending', undefined, 0]);
  expect(it.condition()).toEqual(['false', 'Pending', `It waits for ${waits}`]);
  await it[what](yes as never);
  await it.pass(0);
  expect([it.task()?.desired.run, bucket.uploads.size]).toEqual(['running', 1]);
});

test('one that could not begin within an hour fails, and its users are told once', async () => {
  const bucket = new MemoryBucket();
  await using rig = await openRig({ controllers: [controllerOf(bucket)] });
  const it = await asked(rig);
  await it.instance(false);
  await it.server('offline');
  expect(it.condition()?.[2]).toBe('It waits for its server to answer');
  await it.pass(patience.startMs - minute);
  expect(it.phase()).toBe('pending');
  await it.pass(minute + 1000);
  expect(it.observed()).toMatchObject({ phase: 'failed', error: { code: 'not_started' } });
  expect(it.told()).toEqual([expect.stringContaining('backup_failed: It could not begin within an hour')]);
  await it.taskGone();
  expect([it.task(), bucket.uploads.size, it.told().length]).toEqual([undefined, 0, 1]);
  await it.quiet();
});

test('one that waits for its turn on its server is not given up while others are sent', async () => {
  const bucket = new MemoryBucket();
  await using rig = await openRig({ controllers: [controllerOf(bucket)] });
  const it = await asked(rig);
  await it.report({ phase: 'pending' });
  await it.pass(5 * hour);
  expect(it.phase()).toBe('pending');
  await it.report({ phase: 'running' });
  await it.sent();
  expect(it.phase()).toBe('completed');
});

test('one whose server does not come back after it lost the task is given up', async () => {
  const bucket = new MemoryBucket();
  await using rig = await openRig({ controllers: [controllerOf(bucket)] });
  const it = await asked(rig);
  await it.report({ phase: 'running' });
  await it.report({ phase: 'lost' });
  expect([it.phase(), it.task()?.desired.spec]).toEqual(['running', expect.objectContaining({ attempt: 2 })]);
  await it.server('offline');
  expect(it.condition()).toEqual(['unknown', 'ServerAway', expect.any(String)]);
  await it.pass(patienceMs(taskRow('backup').deadlineSeconds * 1000) + minute);
  expect(it.observed()).toMatchObject({ phase: 'failed', error: { code: 'server_away' } });
});

test('one whose server took it and never reported again is given up after the deadline of the task', async () => {
  const bucket = new MemoryBucket();
  await using rig = await openRig({ controllers: [controllerOf(bucket)] });
  const it = await asked(rig);
  await it.report({ phase: 'running' });
  await it.server('offline');
  await it.pass(day);
  expect(it.phase()).toBe('running');
  await it.pass(2 * hour);
  expect(it.observed()).toMatchObject({ phase: 'failed', error: { code: 'server_away' } });
});

test('one that its server lost runs again, at most three times', async () => {
  const bucket = new MemoryBucket();
  await using rig = await openRig({ controllers: [controllerOf(bucket)] });
  const it = await asked(rig);
  const upload = it.observed()?.upload_id;
  for (const attempt of [1, 2, 3]) {
    expect(it.task()?.desired.spec).toMatchObject({ attempt });
    await it.report({ phase: 'running' });
    await it.report({ phase: 'lost' });
  }
  expect(it.observed()).toMatchObject({ phase: 'failed', upload_id: upload, error: { code: 'interrupted' } });
  await it.taskGone();
  expect(bucket.uploads.size).toBe(0);
});

test('what its server reports of a failure is what it failed of', async () => {
  const bucket = new MemoryBucket();
  await using rig = await openRig({ controllers: [controllerOf(bucket)] });
  const it = await asked(rig);
  const error = { code: 'backup_failed', message: 'pg_dump ended with 1. It said: no room' };
  await it.report({ phase: 'failed', error });
  expect(it.observed()).toMatchObject({ phase: 'failed', error });
  expect(it.condition()).toEqual(['false', 'Failed', error.message]);
  expect(it.told()).toEqual([`backup_failed: ${error.message}`]);
  expect(bucket.uploads.size).toBe(1);
  await it.taskGone();
  expect([bucket.uploads.size, it.observed()?.upload_id]).toEqual([0, undefined]);
  await it.quiet();
  expect(it.told()).toHaveLength(1);
});

test('an agent of an earlier release is a condition of its own', async () => {
  const bucket = new MemoryBucket();
  await using rig = await openRig({ controllers: [controllerOf(bucket)] });
  const it = await asked(rig);
  await it.report({ phase: 'failed', error: { code: 'agent_outdated', message: 'Upgrade the agent' } });
  expect(it.condition('AgentTooOld')).toEqual(['true', 'AgentOfEarlierRelease', 'Upgrade the agent']);
});

test.each([
  ['database', 'database_gone'],
  ['destination', 'destination_gone'],
  ['server', 'server_gone'],
] as const)('without its %s it fails at once', async (without, code) => {
  const bucket = new MemoryBucket();
  await using rig = await openRig({ controllers: [controllerOf(bucket)] });
  const it = await asked(rig, { without });
  expect(it.observed()).toMatchObject({ phase: 'failed', error: { code } });
  await it.quiet();
});

test('one whose server is deleted while it sends fails, and so does one whose destination is', async () => {
  for (const [kind, which, code] of [
    ['server', 'server', 'server_gone'],
    ['backup_destination', 'store', 'destination_gone'],
  ] as const) {
    const bucket = new MemoryBucket();
    await using rig = await openRig({ controllers: [controllerOf(bucket)] });
    const it = await asked(rig);
    await it.report({ phase: 'running' });
    await it.remove(kind, id(which));
    expect(it.observed()).toMatchObject({ phase: 'failed', error: { code } });
  }
});

test('one whose database is deleted while it sends goes on', async () => {
  const bucket = new MemoryBucket();
  await using rig = await openRig({ controllers: [controllerOf(bucket)] });
  const it = await asked(rig);
  await it.report({ phase: 'running' });
  await it.remove('database', id('orders'));
  expect(it.phase()).toBe('running');
  await it.sent();
  expect(it.phase()).toBe('completed');
});

test('a bucket that does not begin an upload for a while is asked again, and one that never will is not', async () => {
  const bucket = new MemoryBucket();
  bucket.trouble = refused;
  await using rig = await openRig({ controllers: [controllerOf(bucket)] });
  const it = await asked(rig);
  expect([it.phase(), it.task()]).toEqual(['pending', undefined]);
  expect(it.condition()?.[2]).toBe(`It waits for its bucket to answer. ${refused.message}`);
  await it.pass(10 * minute);
  bucket.trouble = undefined;
  await it.pass(minute);
  expect([it.task()?.desired.run, bucket.uploads.size]).toEqual(['running', 1]);

  const closed = new MemoryBucket();
  closed.trouble = wrongKeys;
  await using second = await openRig({ controllers: [controllerOf(closed)] });
  const other = await asked(second);
  expect(other.observed()).toMatchObject({
    phase: 'failed',
    error: { code: wrongKeys.code, message: wrongKeys.message },
  });
  expect(other.told()).toEqual([`backup_failed: ${wrongKeys.message}`]);
  await other.quiet();
});

test('all that was sent is kept for an hour while the bucket does not answer, however long the way to it was', async () => {
  const bucket = new MemoryBucket();
  bucket.trouble = refused;
  await using rig = await openRig({ controllers: [controllerOf(bucket)] });
  const it = await asked(rig);
  await it.pass(minute);
  bucket.trouble = undefined;
  await it.pass(minute);
  await it.report({ phase: 'running' });
  await it.pass(3 * hour);
  // this trouble is another one
  bucket.trouble = refused;
  await it.sent();
  expect([it.phase(), it.condition()?.[1]]).toEqual(['verifying', 'Verifying']);
  await it.pass(patience.bucketMs - minute);
  expect(it.phase()).toBe('verifying');
  bucket.trouble = undefined;
  await it.pass(minute);
  expect(it.phase()).toBe('completed');
});

test('all that was sent is given up after an hour, and removed once the bucket answers', async () => {
  const bucket = new MemoryBucket();
  await using rig = await openRig({ controllers: [controllerOf(bucket)] });
  const it = await asked(rig);
  await it.report({ phase: 'running' });
  bucket.trouble = refused;
  await it.sent();
  await it.pass(patience.bucketMs + minute);
  expect(it.observed()).toMatchObject({
    phase: 'failed',
    error: { code: refused.code, message: refused.message },
  });
  await it.taskGone();
  expect([bucket.uploads.size, it.observed()?.upload_id]).toEqual([1, expect.any(String)]);
  bucket.trouble = undefined;
  await it.pass(hour);
  expect([bucket.uploads.size, it.observed()?.upload_id]).toEqual([0, undefined]);
  expect(it.told()).toEqual([`backup_failed: ${refused.message}`]);
  await it.quiet();
});

test.each([
  ['another size', { bytes: 499, etag: 'of-parts-2' }],
  ['another content', { bytes: 500, etag: 'of-others-2' }],
])('an object of %s is no backup, and is removed', async (_, found) => {
  const bucket = new MemoryBucket();
  bucket.complete = async (_place, { key, id: upload }) => {
    bucket.uploads.delete(upload);
    bucket.objects.set(key, found);
    return { bytes: result.size_bytes, etag: result.etag };
  };
  await using rig = await openRig({ controllers: [controllerOf(bucket)] });
  const it = await asked(rig);
  await it.report({ phase: 'running' });
  await it.sent();
  expect(it.observed()).toMatchObject({ phase: 'failed', error: { code: 'not_whole' } });
  expect(bucket.objects.has(manifest)).toBe(false);
  await it.taskGone();
  expect([[...bucket.objects.keys()], it.told().length]).toEqual([[], 1]);
});

test('the manifest is written last, and without it nothing is completed', async () => {
  const bucket = new MemoryBucket();
  const put = bucket.put.bind(bucket);
  bucket.put = async () => {
    bucket.trouble = refused;
    return put({} as never, manifest, ''); // it fails before it looks at that
  };
  await using rig = await openRig({ controllers: [controllerOf(bucket)] });
  const it = await asked(rig);
  await it.report({ phase: 'running' });
  await it.sent();
  expect([it.phase(), [...bucket.objects.keys()]]).toEqual(['verifying', [object]]);
  bucket.trouble = undefined;
  bucket.put = put;
  await it.pass(minute);
  expect([it.phase(), [...bucket.objects.keys()].toSorted()]).toEqual(['completed', [object, manifest].toSorted()]);
});

test('what was completed by a control plane that ended before it wrote so counts when it is completed again', async () => {
  const bucket = new MemoryBucket();
  await using rig = await openRig({ controllers: [controllerOf(bucket)] });
  const it = await asked(rig);
  await it.report({ phase: 'running' });
  await bucket.complete(
    {} as never,
    { key: object, id: it.observed()?.upload_id ?? '' },
    { bytes: 500, etag: 'of-parts-2' },
  );
  await it.sent();
  expect(it.phase()).toBe('completed');
  expect(bucket.objects.get(object)).toEqual({ bytes: 500, etag: 'of-parts-2' });
});

test('one that is cancelled before it began leaves nothing, and nobody is told', async () => {
  const bucket = new MemoryBucket();
  await using rig = await openRig({ controllers: [controllerOf(bucket)] });
  const it = await asked(rig, { backup: { cancel_requested: true } });
  expect(it.observed()).toMatchObject({ phase: 'failed', error: { code: 'cancelled' } });
  expect([it.task(), bucket.uploads.size, it.told()]).toEqual([undefined, 0, []]);
  await it.quiet();
});

test.each(['pending', 'running', 'succeeded'] as const)(
  'one that is cancelled while its task is %s leaves nothing, and its upload is aborted after the task is gone',
  async (phase) => {
    const bucket = new MemoryBucket();
    await using rig = await openRig({ controllers: [controllerOf(bucket)] });
    const it = await asked(rig);
    await it.report({ phase: 'running' });
    bucket.trouble = refused;
    await it.report(phase === 'succeeded' ? { phase, result } : { phase });
    bucket.trouble = undefined;
    await it.change((draft) => void (draft.cancel_requested = true));
    expect(it.observed()).toMatchObject({ phase: 'failed', error: { code: 'cancelled' } });
    expect([it.task()?.meta.deletionRequestedAt !== undefined, bucket.uploads.size]).toEqual([true, 1]);
    await it.taskGone();
    expect([bucket.uploads.size, [...bucket.objects.keys()], it.told()]).toEqual([0, [], []]);
    await it.quiet();
  },
);

test('one that is cancelled after it was completed stays', async () => {
  const bucket = new MemoryBucket();
  await using rig = await openRig({ controllers: [controllerOf(bucket)] });
  const it = await completed(rig);
  await it.change((draft) => void (draft.cancel_requested = true));
  expect([it.phase(), bucket.objects.size]).toEqual(['completed', 2]);
});

/** Another backup of the same database. */
function another(
  name: string,
  requested_at: string,
  fields: Partial<DesiredOf<'backup'>> = {},
): (unit: CommittableUnit) => void {
  return (unit) =>
    void unit.create(
      'backup',
      id(name),
      desiredState('backup', {
        project_id: id('shop'),
        place: { environment_id: id('environment'), server_id: id('server') },
        of: ofDatabase(id('orders')),
        destination_id: id('store'),
        requested_at,
        ...fields,
      }),
    );
}

async function good(rig: Rig, name: string, changes: Partial<ObservedOf<'backup'>> = {}): Promise<void> {
  const it = (await rig.repo.get('backup', id(name)))!;
  const at = rig.clock.now().toISOString();
  const ok = { phase: 'completed' as const, size_bytes: 7, verified_at: at, finished_at: at };
  await rig.repo.observe(it, { ...ok, ...changes, observedGeneration: 1, conditions: [] }, []);
  await rig.rest();
}

test('one whose time is over goes only if it is not pinned and a later one is good', async () => {
  const bucket = new MemoryBucket();
  await using rig = await openRig({ controllers: [controllerOf(bucket)] });
  const it = await completed(rig, {
    backup: { expires_at: '2030-01-01T02:00:00.000Z', pinned: true },
    also: another('earlier', '2029-12-31T00:00:00.000Z'),
  });
  await good(rig, 'earlier');
  await it.pass(3 * hour);
  expect([it.phase(), bucket.objects.size]).toEqual(['completed', 2]);
  await it.change((draft) => void (draft.pinned = false));
  expect([it.phase(), bucket.objects.size]).toEqual(['completed', 2]);

  const unit = rig.repo.begin();
  another('later', '2030-01-01T01:00:00.000Z')(unit);
  await commit(unit);
  rig.controllers.resync();
  await rig.rest();
  expect(it.phase()).toBe('completed');
  await good(rig, 'later');
  rig.controllers.resync();
  await it.pass(patience.expiringMs + minute);
  expect([it.phase(), [...bucket.objects.keys()].filter((key) => key.includes(id('first')))]).toEqual(['expired', []]);
  expect(it.condition()).toEqual(['false', 'Expired', expect.any(String)]);
  expect(it.told()).toEqual([]);
});

test('one that was requested while a clock was a day ahead is no later one', async () => {
  await using rig = await openRig({ controllers: [controllerOf(new MemoryBucket())] });
  const unit = rig.repo.begin();
  another('ahead', '2030-01-02T00:00:00.000Z')(unit);
  await commit(unit);
  await good(rig, 'ahead');
  const it = await completed(rig, { backup: { expires_at: '2030-01-01T02:00:00.000Z' } });
  await it.pass(3 * hour);
  expect(it.phase()).toBe('completed');
});

/** A bucket that removes nothing of one backup. */
class HoldingBucket extends MemoryBucket {
  readonly #held: string;

  constructor(held: string) {
    super();
    this.#held = held;
  }

  override async remove(place: BucketPlace, keys: readonly string[]): Promise<void> {
    if (keys.some((key) => key.includes(this.#held))) throw new BucketTrouble(refused);
    return super.remove(place, keys);
  }
}

test('one whose time is over stays where the later good ones go themselves', async () => {
  const bucket = new HoldingBucket(id('later'));
  await using rig = await openRig({ controllers: [controllerOf(bucket)] });
  const it = await completed(rig, { backup: { expires_at: '2030-01-01T02:00:00.000Z' } });
  const unit = rig.repo.begin();
  another('of clone', '2030-01-01T01:00:00.000Z', { clone_id: id('clone') })(unit);
  await commit(unit);
  await good(rig, 'of clone');
  await it.pass(3 * hour);
  expect(it.phase()).toBe('completed');

  const later = rig.repo.begin();
  another('later', '2030-01-01T01:00:00.000Z')(later);
  await commit(later);
  const report = { phase: 'completed' as const, size_bytes: 7, observedGeneration: 1, conditions: [] };
  await rig.repo.observe((await rig.repo.get('backup', id('later')))!, report, []);
  await it.remove('backup', id('later'));
  rig.controllers.resync();
  await rig.rest();
  expect([it.phase(), it.view.get('backup', id('later'))?.observed?.phase]).toEqual(['completed', 'completed']);
});

test('one whose time is over stays while the log of the later ones is not in the bucket', async () => {
  const bucket = new MemoryBucket();
  await using rig = await openRig({ controllers: [controllerOf(bucket)] });
  const segment = (position: number) => segmentAt({ timeline: 1, position });
  const physical = { method: 'physical' as const, archive_id: id('log') };
  const it = await asked(rig, {
    backup: { ...physical, expires_at: '2030-01-01T02:00:00.000Z' },
    database: { archive: { id: id('log'), destination_id: id('store'), retention_count: 1 } },
    also: (unit) => {
      const log = { database_id: id('orders'), volume_id: id('data') };
      unit.create('wal_archive', id('log'), desiredState('wal_archive', log));
      another('later', '2030-01-01T01:00:00.000Z', physical)(unit);
    },
  });
  await it.report({ phase: 'running' });
  await it.sent({ first_segment: segment(20), last_segment: segment(21), stopped_at: now });
  await it.taskGone();
  await good(rig, 'later', {
    log: { first_segment: segment(30), last_segment: segment(31), stopped_at: '2030-01-01T01:00:00.000Z' },
  });
  const base = backupKeys(it.own()!).object;
  bucket.objects.set(backupKeys(it.view.get('backup', id('later'))!).object, { bytes: 7, etag: 'later' });
  const shows = async (last: number) => {
    const archive = (await rig.repo.get('wal_archive', id('log')))!;
    const until = rig.clock.now().toISOString();
    const seen = { phase: 'archiving' as const, until, until_segment: segment(last), gaps: [] };
    await rig.repo.observe(archive, { ...seen, observedGeneration: 1, conditions: [] }, []);
    await it.pass(patience.lookMs + minute);
  };
  await it.pass(2 * hour);
  await shows(25);
  expect([it.phase(), bucket.objects.has(base)]).toEqual(['completed', true]);
  await shows(31);
  await it.pass(patience.expiringMs + minute);
  expect([it.phase(), bucket.objects.has(base)]).toEqual(['expired', false]);
});

test('one whose time is over stays while it is restored', async () => {
  const bucket = new MemoryBucket();
  await using rig = await openRig({ controllers: [controllerOf(bucket)] });
  const it = await completed(rig, { backup: { expires_at: '2030-01-01T02:00:00.000Z' } });
  const unit = rig.repo.begin();
  another('later', '2030-01-01T01:00:00.000Z')(unit);
  unit.create(
    'restore',
    id('back'),
    desiredState('restore', {
      backup_id: id('first'),
      of: { kind: 'database', id: id('orders') },
      project_id: id('shop'),
    }),
  );
  await commit(unit);
  await good(rig, 'later');
  await it.pass(3 * hour);
  expect([it.phase(), bucket.objects.size]).toEqual(['completed', 2]);
  const back = (await rig.repo.get('restore', id('back')))!;
  await rig.repo.observe(back, { phase: 'completed', observedGeneration: 1, conditions: [] }, []);
  await it.pass(patience.expiringMs + minute);
  expect(it.phase()).toBe('expired');
});

describe('the removal of one whose time is over', () => {
  async function expiring(rig: Rig) {
    const it = await completed(rig, { backup: { expires_at: '2030-01-01T02:00:00.000Z' } });
    const unit = rig.repo.begin();
    another('later', '2030-01-01T01:00:00.000Z')(unit);
    await commit(unit);
    await good(rig, 'later');
    await it.pass(2 * hour + 2000);
    return it;
  }

  test('is noted before it begins, so that nothing begins to need it', async () => {
    const bucket = new MemoryBucket();
    await using rig = await openRig({ controllers: [controllerOf(bucket)] });
    const it = await expiring(rig);
    expect(it.observed()).toMatchObject({ phase: 'completed', expiring: true });
    expect([it.condition()?.[1], bucket.objects.has(object)]).toEqual(['Expiring', true]);
    await it.pass(patience.expiringMs + minute);
    expect([it.phase(), it.observed()?.expiring, bucket.objects.has(object)]).toEqual(['expired', undefined, false]);
  });

  test('is taken back where a pin came before the note, and what is missing of it is written anew', async () => {
    const bucket = new MemoryBucket();
    await using rig = await openRig({ controllers: [controllerOf(bucket)] });
    const it = await expiring(rig);
    bucket.objects.delete(manifest);
    await it.change((draft) => void (draft.pinned = true));
    await it.pass(hour);
    expect([it.phase(), it.observed()?.expiring, it.condition()?.[1]]).toEqual(['completed', undefined, 'Completed']);
    expect([bucket.objects.has(object), bucket.objects.has(manifest)]).toEqual([true, true]);
    await it.quiet();
  });

  test('is no end of one that its bucket does not have any more', async () => {
    const bucket = new MemoryBucket();
    await using rig = await openRig({ controllers: [controllerOf(bucket)] });
    const it = await expiring(rig);
    for (const key of [object, manifest]) bucket.objects.delete(key);
    await it.change((draft) => void (draft.pinned = true));
    expect([it.observed()?.expiring, it.condition()?.[1], bucket.objects.has(manifest)]).toEqual([
      undefined,
      'NotFound',
      false,
    ]);
  });
});

test('the bucket is asked every day whether it still has the object; one that is missing is told once', async () => {
  const bucket = new MemoryBucket();
  await using rig = await openRig({ controllers: [controllerOf(bucket)] });
  const it = await completed(rig);
  const first = it.observed()?.verified_at;
  await it.pass(patience.lookMs + minute);
  expect([it.phase(), it.observed()?.verified_at === first]).toEqual(['completed', false]);

  bucket.trouble = refused;
  await it.pass(patience.lookMs + hour);
  expect([it.phase(), it.told()]).toEqual(['completed', []]);

  bucket.trouble = undefined;
  const whole = bucket.objects.get(object)!;
  bucket.objects.delete(object);
  await it.pass(hour);
  expect([it.phase(), it.condition()?.[1], it.told()]).toEqual(['completed', 'NotFound', []]);
  await it.pass(patience.doubtMs + minute);
  expect(it.observed()).toMatchObject({ phase: 'failed', error: { code: 'missing' } });
  expect(it.condition()?.[1]).toBe('Missing');
  expect(it.told()).toEqual([expect.stringContaining('backup_missing: The bucket has no such object')]);
  await it.pass(day + hour);
  await it.quiet();
  expect(it.told()).toHaveLength(1);

  // it was renamed for a day
  bucket.objects.set(object, whole);
  await it.pass(day + hour);
  expect([it.phase(), it.observed()?.error, it.condition()?.[1]]).toEqual(['completed', undefined, 'Completed']);
  bucket.objects.delete(object);
  await it.pass(patience.lookMs + minute);
  await it.pass(patience.doubtMs + minute);
  expect([it.phase(), it.told().length]).toEqual(['failed', 2]);
});

test('one answer that it has no such object is forgotten when the next one is another', async () => {
  const bucket = new MemoryBucket();
  await using rig = await openRig({ controllers: [controllerOf(bucket)] });
  const it = await completed(rig);
  const whole = bucket.objects.get(object)!;
  bucket.objects.delete(object);
  await it.pass(patience.lookMs + minute);
  expect(it.condition()?.[1]).toBe('NotFound');
  bucket.objects.set(object, whole);
  await it.pass(patience.doubtMs + minute);
  expect([it.phase(), it.condition()?.[1], it.told()]).toEqual(['completed', 'Completed', []]);
});

test('one that was lost for a month goes, and what its bucket has by then stays', async () => {
  const bucket = new MemoryBucket();
  await using rig = await openRig({ controllers: [controllerOf(bucket)] });
  const it = await completed(rig);
  const own = (await rig.repo.get('backup', id('first')))!;
  const lost = { since: '2029-11-30T00:00:00.000Z', looked_at: now };
  const state = { phase: 'failed' as const, size_bytes: result.size_bytes, finished_at: now, lost };
  await rig.repo.observe(own, { ...state, observedGeneration: 1, conditions: [] }, []);
  await it.remove('backup', id('first'));
  expect([it.own(), bucket.objects.has(object)]).toEqual([undefined, true]);
});

test('one whose bucket names what is made of parts in its own way is completed', async () => {
  const bucket = new MemoryBucket();
  bucket.etagOf = () => 'of another form';
  await using rig = await openRig({ controllers: [controllerOf(bucket)] });
  const it = await completed(rig);
  expect(it.observed()).toMatchObject({ phase: 'completed', etag: 'of another form' });
});

test('one of the files of a database fails once that serves from another volume, whose log is another one', async () => {
  const bucket = new MemoryBucket();
  await using rig = await openRig({ controllers: [controllerOf(bucket)] });
  const archive = { id: id('log'), destination_id: id('store'), retention_count: 7 };
  const it = await asked(rig, {
    backup: { method: 'physical', archive_id: id('log') },
    database: { archive },
    also: (unit) =>
      void unit.create(
        'wal_archive',
        id('log'),
        desiredState('wal_archive', { database_id: id('orders'), volume_id: id('data') }),
      ),
  });
  await it.report({ phase: 'running' });
  expect(it.phase()).toBe('running');
  await rig.repo.change('database', id('orders'), (draft) => void (draft.data_volume_id = id('restored')));
  await rig.rest();
  expect(it.observed()).toMatchObject({ phase: 'failed', error: { code: 'archive_ended' } });
  expect([it.observed()?.error?.message, it.told()]).toEqual([expect.stringContaining('another volume'), []]);
});

describe('a restore of what it is of', () => {
  const notes: Asked = {
    backup: { of: { kind: 'volume', id: id('notes') }, method: 'snapshot' },
    also: (unit) => void unit.create('volume', id('notes'), desiredState('volume', { name: 'notes' })),
  };
  const specOf = (it: Awaited<ReturnType<typeof asked>>) => it.task()?.desired.spec;
  const exchange = async (rig: Rig) => {
    await rig.repo.change('volume', id('notes'), (draft) => void (draft.data_id = id('restored')));
    await rig.rest();
  };

  test.each([undefined, 'pending', 'running', 'lost'] as const)(
    'a volume that got other data by it is sent with these: the task was %s',
    async (phase) => {
      await using rig = await openRig({ controllers: [controllerOf(new MemoryBucket())] });
      const it = await asked(rig, notes);
      await it.volume('available');
      expect(specOf(it)).toMatchObject({ volume: `sp-vol-${id('notes')}`, attempt: 1 });
      if (phase !== undefined) await it.report({ phase });
      await exchange(rig);
      expect(specOf(it)).toMatchObject({
        volume: `sp-vol-${id('restored')}`,
        attempt: phase === 'lost' ? 2 : 1,
      });
    },
  );

  test.each([
    ['that waits for its turn goes to what serves by then', 'pending', 'new instance'],
    ['that is made goes on where it began', 'running', 'instance'],
  ] as const)('a dump %s', async (_, phase, instance) => {
    await using rig = await openRig({ controllers: [controllerOf(new MemoryBucket())] });
    const it = await asked(rig);
    await it.report({ phase });
    const unit = rig.repo.begin();
    const serving = { server_id: id('server'), workload_kind: 'database' as const, workload_id: id('orders') };
    const next = desiredState('assignment', { ...serving, version: id('restored') });
    unit.change((await rig.repo.get('database', id('orders')))!, (draft) => {
      draft.data_volume_id = id('restored');
    });
    unit.create('assignment', id('new instance'), next);
    await commit(unit);
    await rig.rest();
    expect(it.task()?.desired.spec).toMatchObject({ instance: id(instance) });
  });

  test.each([
    ['ends', { phase: 'completed' as const }],
    ['is held', { phase: 'ready_to_switch' as const }],
  ])('lets it wait, and it begins once that %s', async (_, state) => {
    await using rig = await openRig({ controllers: [controllerOf(new MemoryBucket())] });
    const restore = desiredState('restore', {
      backup_id: id('monday'),
      of: { kind: 'volume', id: id('notes') },
      project_id: id('shop'),
    });
    const it = await asked(rig, {
      ...notes,
      also: (unit) => {
        notes.also?.(unit);
        unit.create('restore', id('back'), restore);
      },
    });
    await it.volume('available');
    await it.pass(5 * hour);
    expect([it.phase(), it.task()]).toEqual(['pending', undefined]);
    expect(it.condition()?.[2]).toMatch(/^It waits for the restore of .+ to end$/);
    await it.quiet();
    const back = (await rig.repo.get('restore', id('back')))!;
    await rig.repo.observe(back, { ...state, observedGeneration: 1, conditions: [] }, []);
    await rig.rest();
    expect(it.task()).toBeDefined();
  });

  test('lets an attempt wait that follows a lost one', async () => {
    await using rig = await openRig({ controllers: [controllerOf(new MemoryBucket())] });
    const it = await asked(rig, notes);
    await it.volume('available');
    await it.report({ phase: 'running' });
    const unit = rig.repo.begin();
    const of = { kind: 'volume' as const, id: id('notes') };
    unit.create('restore', id('back'), desiredState('restore', { of, project_id: id('shop') }));
    await commit(unit);
    await rig.rest();
    expect(it.phase()).toBe('running');
    await it.report({ phase: 'lost' });
    expect(specOf(it)).toMatchObject({ attempt: 1 });
    // this is no time of the attempt that follows
    await rig.clock.advance(25 * 60 * 60_000);
    await rig.rest();
    const back = (await rig.repo.get('restore', id('back')))!;
    await rig.repo.observe(back, { phase: 'failed', observedGeneration: 1, conditions: [] }, []);
    await rig.rest();
    expect(specOf(it)).toMatchObject({ attempt: 2 });
    await rig.clock.advance(60 * 60_000);
    await rig.rest();
    expect(it.phase()).toBe('running');
  });

  test('that is a drill holds nothing up', async () => {
    await using rig = await openRig({ controllers: [controllerOf(new MemoryBucket())] });
    const of = { kind: 'volume' as const, id: id('notes') };
    const drill = desiredState('restore', { of, project_id: id('shop'), is_drill: true });
    const it = await asked(rig, {
      ...notes,
      also: (unit) => {
        notes.also?.(unit);
        unit.create('restore', id('trial'), drill);
      },
    });
    await it.volume('available');
    expect(it.task()).toBeDefined();
  });
});

test('one of a volume that is deleted meanwhile fails', async () => {
  const bucket = new MemoryBucket();
  await using rig = await openRig({ controllers: [controllerOf(bucket)] });
  const it = await asked(rig, {
    backup: { of: { kind: 'volume', id: id('notes') }, method: 'snapshot' },
    also: (unit) => void unit.create('volume', id('notes'), desiredState('volume', { name: 'notes' })),
  });
  await it.volume('available');
  await it.report({ phase: 'running' });
  expect(it.phase()).toBe('running');
  await it.remove('volume', id('notes'));
  expect(it.observed()).toMatchObject({ phase: 'failed', error: { code: 'volume_gone' } });
});

test('one whose object has become another one is failed, and its deletion removes what is there', async () => {
  const bucket = new MemoryBucket();
  await using rig = await openRig({ controllers: [controllerOf(bucket)] });
  const it = await completed(rig);
  bucket.objects.set(object, { bytes: 3, etag: 'other' });
  await it.pass(patience.lookMs + minute);
  await it.pass(patience.doubtMs + minute);
  expect(it.observed()).toMatchObject({ phase: 'failed', error: { code: 'not_whole' } });
  await it.remove('backup', id('first'));
  expect([it.own(), [...bucket.objects.keys()]]).toEqual([undefined, []]);
});

test('one that is deleted is removed from its bucket first', async () => {
  const bucket = new MemoryBucket();
  await using rig = await openRig({ controllers: [controllerOf(bucket)] });
  const it = await completed(rig);
  bucket.trouble = refused;
  await it.remove('backup', id('first'));
  expect([it.phase(), it.condition()?.[1]]).toEqual(['completed', 'Deleting']);
  await it.pass(hour);
  expect(it.own()).toBeDefined();
  bucket.trouble = undefined;
  await it.pass(minute);
  expect([it.own(), [...bucket.objects.keys()]]).toEqual([undefined, []]);
});

test('a bucket whose probes fail is asked nothing, and at once what waits once it can be reached', async () => {
  const bucket = new MemoryBucket();
  await using rig = await openRig({ controllers: [controllerOf(bucket)] });
  const it = await completed(rig);
  await it.destination('unreachable');
  const before = bucket.calls;
  await it.remove('backup', id('first'));
  await it.pass(2 * day);
  expect([bucket.calls - before, it.phase(), it.condition()?.[1]]).toEqual([0, 'completed', 'Deleting']);
  expect(it.condition('Reconciling')?.[2]).toBe('destination store to be reachable');
  await it.destination('reachable');
  expect([it.own(), [...bucket.objects.keys()]]).toEqual([undefined, []]);
});

test.each([
  ['answers', 'no_space', 0],
  ['gives no answer', 'timeout', 2],
])('a bucket whose probes fail, and that %s, is asked to remove what is deleted: %s', async (_, code, left) => {
  const bucket = new MemoryBucket();
  await using rig = await openRig({ controllers: [controllerOf(bucket)] });
  const it = await completed(rig);
  expect(bucket.objects.size).toBe(2);
  await it.destination('unreachable', code);
  await it.remove('backup', id('first'));
  await it.pass(hour);
  expect([bucket.objects.size, it.own() === undefined]).toEqual([left, left === 0]);
});

test('what was sent waits for a bucket whose probes fail, and is given up after an hour with what they say', async () => {
  const bucket = new MemoryBucket();
  await using rig = await openRig({ controllers: [controllerOf(bucket)] });
  const it = await asked(rig);
  await it.report({ phase: 'running' });
  await it.destination('unreachable');
  const before = bucket.calls;
  await it.sent();
  await it.pass(minute);
  expect([it.phase(), bucket.calls - before]).toEqual(['verifying', 0]);
  await it.pass(patience.bucketMs);
  expect(it.observed()).toMatchObject({ phase: 'failed', error: { code: 'unreachable' } });
  await it.taskGone();
  await it.pass(hour);
  expect([bucket.calls - before, bucket.uploads.size]).toEqual([0, 1]);
  await it.destination('reachable');
  expect([it.observed()?.upload_id, bucket.uploads.size]).toEqual([undefined, 0]);
});

test('a bucket that is away for a week holds the deletion of a backup no longer', async () => {
  const bucket = new MemoryBucket();
  await using rig = await openRig({ controllers: [controllerOf(bucket)] });
  const it = await completed(rig);
  bucket.trouble = refused;
  await it.remove('backup', id('first'));
  await it.pass(removalPatience.deletionMs - hour);
  expect(it.own()).toBeDefined();
  await it.pass(2 * hour);
  expect([it.own(), it.told()]).toEqual([undefined, []]);
});

test('one whose server does not come back for more than a week is removed from its bucket nevertheless', async () => {
  const bucket = new MemoryBucket();
  await using rig = await openRig({ controllers: [controllerOf(bucket)] });
  const it = await asked(rig);
  await it.report({ phase: 'running' });
  await it.sent();
  expect(it.phase()).toBe('completed');
  await it.remove('backup', id('first'));
  await it.pass(removalPatience.deletionMs + day);
  expect(bucket.objects.size).toBe(2);
  bucket.trouble = refused;
  await it.taskGone();
  expect(it.own()).toBeDefined();
  bucket.trouble = undefined;
  await it.pass(20 * minute);
  expect([it.own(), bucket.objects.size]).toEqual([undefined, 0]);
});

test('one that is deleted while it is sent goes after its task', async () => {
  const bucket = new MemoryBucket();
  await using rig = await openRig({ controllers: [controllerOf(bucket)] });
  const it = await asked(rig);
  await it.report({ phase: 'running' });
  await it.remove('backup', id('first'));
  expect([it.own() === undefined, bucket.uploads.size]).toEqual([false, 1]);
  await it.taskGone();
  expect([it.own(), bucket.uploads.size, it.told()]).toEqual([undefined, 0, []]);
});

describe('one that another installation made', () => {
  const folder = 'other/project/database/backups/first';
  const found = {
    folder,
    size_bytes: 500,
    dump_bytes: 900,
    checksum_sha256: 'ab12',
    finished_at: '2029-12-31T00:00:00.000Z',
  };

  test('is completed once the bucket has its object, asks no server, and is removed from there when it is deleted', async () => {
    const bucket = new MemoryBucket();
    bucket.objects.set(`${folder}/dump.zst`, { bytes: 500, etag: 'theirs' });
    bucket.objects.set(`${folder}/manifest.json`, { bytes: 3, etag: 'manifest', text: '{}' });
    await using rig = await openRig({ controllers: [controllerOf(bucket)] });
    const it = await asked(rig, { without: 'database', backup: { found } });
    expect(it.observed()).toMatchObject({
      phase: 'completed',
      size_bytes: 500,
      dump_bytes: 900,
      checksum_sha256: 'ab12',
      etag: 'theirs',
      finished_at: found.finished_at,
    });
    expect([it.task(), bucket.uploads.size, it.told()]).toEqual([undefined, 0, []]);
    await it.quiet();
    await it.remove('backup', id('first'));
    expect([it.own(), [...bucket.objects.keys()]]).toEqual([undefined, []]);
  });

  test.each([
    ['missing', undefined],
    ['not_whole', { bytes: 499, etag: 'theirs' }],
  ])('fails as %s, and what is there stays', async (code, object) => {
    const bucket = new MemoryBucket();
    if (object !== undefined) bucket.objects.set(`${folder}/dump.zst`, object);
    await using rig = await openRig({ controllers: [controllerOf(bucket)] });
    const it = await asked(rig, { without: 'database', backup: { found } });
    expect(it.observed()).toMatchObject({ phase: 'failed', error: { code } });
    await it.remove('backup', id('first'));
    expect([it.own(), bucket.objects.size]).toEqual([undefined, object === undefined ? 0 : 1]);
  });

  test('waits for its bucket', async () => {
    const bucket = new MemoryBucket();
    bucket.objects.set(`${folder}/dump.zst`, { bytes: 500, etag: 'theirs' });
    bucket.trouble = { code: 'no_answer', message: 'It does not answer', isPassing: true };
    await using rig = await openRig({ controllers: [controllerOf(bucket)] });
    const it = await asked(rig, { backup: { found } });
    expect(it.phase()).toBe('pending');
    bucket.trouble = undefined;
    await it.pass(minute);
    expect(it.phase()).toBe('completed');
  });
});

describe('a restore of it shows whether it is proven', () => {
  const failedWith = (code: string) => ({ code, message: 'It ended with 1' });
  test.each<[string, boolean, ObservedOf<'restore'>, string | undefined, boolean]>([
    ['a drill', true, { phase: 'completed' }, 'proven', false],
    ['a restore for use', false, { phase: 'completed' }, 'proven', false],
    [
      'a drill that failed',
      true,
      { phase: 'failed', started_at: '2030-01-01T00:30:00.000Z', error: failedWith('restore_failed') },
      'not_proven',
      true,
    ],
    ['a drill that never began', true, { phase: 'failed', error: failedWith('timeout') }, undefined, false],
    [
      'a drill whose destination went',
      true,
      { phase: 'failed', started_at: '2030-01-01T00:30:00.000Z', error: failedWith('destination_gone') },
      undefined,
      false,
    ],
    ['a drill that had no turn', true, { phase: 'failed', error: failedWith('no_turn') }, undefined, false],
    ['a drill that was cancelled', true, { phase: 'failed', error: failedWith('cancelled') }, undefined, false],
    ['a drill whose database went', true, { phase: 'failed', error: failedWith('database_gone') }, undefined, false],
    ['a restore that failed', false, { phase: 'failed', error: failedWith('not_serving') }, undefined, false],
  ])('%s', async (_, isDrill, observed, status, isTold) => {
    await using rig = await openRig({ controllers: [controllerOf(new MemoryBucket())] });
    const it = await completed(rig);
    const unit = rig.repo.begin();
    unit.create(
      'restore',
      id('trial'),
      desiredState('restore', {
        project_id: id('shop'),
        of: { kind: 'database', id: id('orders') },
        backup_id: id('first'),
        ...(isDrill && { is_drill: true as const }),
      }),
    );
    await commit(unit);
    const finished_at = '2030-01-01T01:00:00.000Z';
    const trial = (await rig.repo.get('restore', id('trial')))!;
    await rig.repo.observe(trial, { ...observed, finished_at, observedGeneration: 1, conditions: [] }, []);
    await rig.rest();
    expect(it.observed()?.verification?.status).toBe(status);
    expect(it.observed()?.proven_at).toBe(status === 'proven' ? finished_at : undefined);
    expect(it.told().filter((one) => one.startsWith('backup_not_proven'))).toEqual(
      isTold ? [expect.stringContaining('failed: It ended with 1')] : [],
    );
    await it.quiet();
  });
});
