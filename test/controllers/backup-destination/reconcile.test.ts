import { expect, test } from 'vitest';
import { backupDestinationController } from '../../../controllers/backup-destination/reconcile.ts';
import type { DestinationSettings } from '../../../controllers/backup-destination/reconcile.ts';
import { pace } from '../../../controllers/backup-destination/states.ts';
import type { Found } from '../../../controllers/backup-destination/states.ts';
import type { BucketPlace } from '../../../network/bucket.ts';
import { settingsId } from '../../../store/kinds/settings.ts';
import { commit } from '../../../store/unit.ts';
import { MemoryBucket } from '../../harness/memory-bucket.ts';
import { desiredState } from '../../harness/states.ts';
import { id, openRig, tenant } from '../runtime/rig.ts';
import type { Rig } from '../runtime/rig.ts';

type Trouble = NonNullable<Found['trouble']>;

const wrongSecret: Trouble = {
  code: 'wrong_secret',
  message: 'The secret key is another one: copy it',
  isPassing: false,
};
const refused: Trouble = { code: 'refused', message: 'Nothing listens there: check endpoint', isPassing: true };
const minute = 60_000;

interface Bucket {
  /** What the next probes find. */
  trouble: Trouble | undefined;
  isClockOff: boolean;
  /** Keys do not open. */
  isSealed: boolean;
  probed: { place: BucketPlace; name: string }[];
  controller: ReturnType<typeof backupDestinationController>;
}

function bucket(): Bucket {
  const it: Omit<Bucket, 'controller'> = { trouble: undefined, isClockOff: false, isSealed: false, probed: [] };
  const settings: DestinationSettings = {
    secrets: {
      unseal: (_value, { path }) => {
        if (it.isSealed) throw new Error('No such key');
        return `opened ${path}`;
      },
    },
    bucket: new MemoryBucket(),
    probe: async (place, name) => {
      it.probed.push({ place, name });
      return { trouble: it.trouble as never, isClockOff: it.isClockOff }; // codes of the test
    },
  };
  return Object.assign(it, { controller: backupDestinationController(settings) });
}

/** A destination, a superadmin, and a user who is none. */
async function prepare(rig: Rig): Promise<void> {
  const unit = rig.repo.begin();
  unit.create('user', id('root'), desiredState('user', { email: 'root@example.test', role: 'superadmin' }));
  unit.create('user', id('ann'), desiredState('user', { email: 'ann@example.test', role: 'user' }));
  unit.create('settings', settingsId, { backup_endpoints: ['10.0.0.7:9000'], budgets: {} });
  unit.create(
    'backup_destination',
    id('store'),
    desiredState('backup_destination', { name: 'store', path_prefix: 'shop' }),
  );
  await commit(unit);
  await rig.rest();
}

const read = async (rig: Rig) => (await rig.repo.get('backup_destination', id('store')))!.observed!;
const conditionOf = async (rig: Rig, type: string) => {
  const found = (await read(rig)).conditions.find((it) => it.type === type);
  return found && [found.status, found.reason, found.message];
};
const notified = (rig: Rig): string[] =>
  rig.mirror
    .tenant(tenant)
    .list('notification')
    .map(({ desired }) => `${desired.type} ${desired.user_id === id('root') ? 'root' : 'another'}`);

/** Lets so much time pass, and a second: a timer may fire a moment late. */
async function pass(rig: Rig, ms: number): Promise<void> {
  await rig.clock.advance(ms + 1000);
  await rig.rest();
}

test('a destination is probed when it is made, every hour, and when it is changed', async () => {
  const it = bucket();
  await using rig = await openRig({ controllers: [it.controller] });
  await prepare(rig);
  expect(it.probed).toHaveLength(1);
  expect(it.probed[0]).toEqual({
    name: id('store'),
    place: {
      endpoint: 'https://s3.example.test',
      region: 'us-east-1',
      pathStyle: true,
      bucket: 'backups',
      prefix: 'shop',
      accessKey: 'opened access_key',
      secretKey: 'opened secret_key',
      ca: undefined,
      storageClass: undefined,
      allowed: ['10.0.0.7:9000'],
    },
  });
  expect(await conditionOf(rig, 'Reachable')).toEqual(['true', 'Probed', expect.stringContaining('listed')]);
  expect((await read(rig)).phase).toBe('reachable');

  const quiet = await rig.store.revision();
  await pass(rig, pace.usualMs - minute);
  rig.controllers.resync();
  await rig.rest();
  expect(it.probed).toHaveLength(1);
  expect(await rig.store.revision()).toBe(quiet);
  await pass(rig, minute);
  expect(it.probed).toHaveLength(2);
  await pass(rig, pace.usualMs);
  expect(it.probed).toHaveLength(3);

  const unit = rig.repo.begin();
  unit.change((await rig.repo.get('backup_destination', id('store')))!, (draft) => void (draft.bucket = 'elsewhere'));
  await commit(unit);
  await rig.rest();
  expect(it.probed.at(-1)?.place.bucket).toBe('elsewhere');
  expect(it.probed).toHaveLength(4);
  expect(notified(rig)).toEqual([]);
});

test('what no waiting cures is shown at once, told once, and told once more when it is over', async () => {
  const it = bucket();
  await using rig = await openRig({ controllers: [it.controller] });
  await prepare(rig);
  it.trouble = wrongSecret;
  await pass(rig, pace.usualMs);
  expect((await read(rig)).phase).toBe('unreachable');
  expect(await conditionOf(rig, 'Reachable')).toEqual(['false', 'WrongSecret', wrongSecret.message]);
  expect(await conditionOf(rig, 'Ready')).toEqual(['false', 'WrongSecret', wrongSecret.message]);
  expect(notified(rig)).toEqual(['backup_destination_failed root']);

  await pass(rig, 2 * pace.usualMs);
  rig.controllers.resync();
  await rig.rest();
  expect(notified(rig)).toEqual(['backup_destination_failed root']);

  it.trouble = undefined;
  await pass(rig, pace.slowestRetryMs);
  expect(await conditionOf(rig, 'Reachable')).toEqual(['true', 'Probed', expect.anything()]);
  expect(notified(rig)).toEqual(['backup_destination_failed root', 'backup_destination_works root']);

  it.trouble = wrongSecret;
  await pass(rig, pace.usualMs);
  expect(notified(rig).filter((one) => one.startsWith('backup_destination_failed'))).toHaveLength(2);
});

test('what may pass by itself is tried again sooner, and counts after three probes in a row', async () => {
  const it = bucket();
  await using rig = await openRig({ controllers: [it.controller] });
  await prepare(rig);
  it.trouble = refused;
  await pass(rig, pace.usualMs);
  expect((await read(rig)).phase).toBe('reachable');
  expect(await conditionOf(rig, 'Reachable')).toEqual(['true', 'Refused', expect.stringContaining(refused.message)]);
  await pass(rig, pace.retryMs);
  expect((await read(rig)).phase).toBe('reachable');
  expect(notified(rig)).toEqual([]);
  await pass(rig, 2 * pace.retryMs);
  expect((await read(rig)).phase).toBe('unreachable');
  expect(notified(rig)).toEqual(['backup_destination_failed root']);
  expect(it.probed).toHaveLength(4);
  // 4, 8, then 15 minutes each
  await pass(rig, 12 * minute + 4 * pace.slowestRetryMs);
  expect(it.probed).toHaveLength(10);
});

test('one that could never be used is pending while that may pass, and tells nobody', async () => {
  const it = bucket();
  it.trouble = refused;
  await using rig = await openRig({ controllers: [it.controller] });
  await prepare(rig);
  expect((await read(rig)).phase).toBeUndefined();
  expect(await conditionOf(rig, 'Reachable')).toEqual(['unknown', 'Refused', expect.anything()]);
  await pass(rig, 3 * pace.retryMs);
  expect((await read(rig)).phase).toBe('unreachable');
  expect(notified(rig)).toEqual([]);
});

test('clocks that differ are a warning of their own', async () => {
  const it = bucket();
  it.isClockOff = true;
  await using rig = await openRig({ controllers: [it.controller] });
  await prepare(rig);
  expect(await conditionOf(rig, 'Reachable')).toEqual(['true', 'Probed', expect.anything()]);
  expect(await conditionOf(rig, 'ClocksAgree')).toEqual([
    'false',
    'ClockOff',
    expect.stringContaining('set the clock'),
  ]);
  it.isClockOff = false;
  await pass(rig, pace.usualMs);
  expect(await conditionOf(rig, 'ClocksAgree')).toBeUndefined();
});

test('keys that do not open are shown, and no bucket is asked', async () => {
  const it = bucket();
  it.isSealed = true;
  await using rig = await openRig({ controllers: [it.controller] });
  await prepare(rig);
  expect(it.probed).toEqual([]);
  expect(await conditionOf(rig, 'Reachable')).toEqual(['false', 'KeysUnreadable', expect.stringContaining('key file')]);
});

test('a new leader does not probe what was probed within the hour', async () => {
  const it = bucket();
  await using rig = await openRig({ controllers: [it.controller] });
  await prepare(rig);
  const second = bucket();
  rig.replica('second', [second.controller]);
  await rig.controllers[Symbol.asyncDispose]();
  await pass(rig, 30_000);
  expect(second.probed).toEqual([]);
  await pass(rig, pace.usualMs);
  expect(second.probed).toHaveLength(1);
});
