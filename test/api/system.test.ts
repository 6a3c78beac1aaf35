import { afterAll, beforeAll, describe, expect, it, test } from 'vitest';
import type { CheckResult, CheckStatus } from '../../agent-protocol/diagnosis.ts';
import { judgeSystem } from '../../api/workloads/system-diagnosis.ts';
import type { SystemFacts } from '../../api/workloads/system-diagnosis.ts';
import { unavailable } from '../../store/errors.ts';
import { revision } from '../../store/revision.ts';
import type { StoreHealth } from '../../store/store.ts';
import { startApi } from '../harness/api.ts';
import type { ApiWorld, Client } from '../harness/api.ts';
import { ForwardingStore } from '../harness/forwarding-store.ts';

type Etcd = Extract<StoreHealth, { backend: 'etcd' }>;
type Sqlite = Extract<StoreHealth, { backend: 'sqlite' }>;

const MiB = 1024 ** 2;
const timing = { writeMs: 5, readMs: 1, revision: revision(10) };
const answer = { version: '3.6.5', bytes: 100 * MiB, usedBytes: 50 * MiB, isLeader: false, isLearner: false };
const members: Etcd['members'] = [
  { name: 'a', status: { ...answer, isLeader: true } },
  { name: 'b', status: answer },
  { name: 'c', status: answer },
];
const etcd: Etcd = { backend: 'etcd', ...timing, members, alarms: [], quotaBytes: 2048 * MiB };
const sqlite: Sqlite = {
  backend: 'sqlite',
  ...timing,
  bytes: 10 * MiB,
  logBytes: MiB,
  freeBytes: 50_000 * MiB,
  fault: 'none',
};
const now = new Date('2030-06-01T00:00:00.000Z');
const good: SystemFacts = {
  store: etcd,
  history: 1000,
  mirrorMs: 3,
  replicas: [{ id: 'one', version: '1' }],
  leader: 'one',
  signingKeyAt: '2030-05-01T00:00:00.000Z',
  signingKeyLifeMs: 90 * 86_400_000,
  version: '1',
  now,
};
const ofEtcd = (changes: Partial<Etcd>): Partial<SystemFacts> => ({ store: { ...etcd, ...changes } });
const ofSqlite = (changes: Partial<Sqlite>): Partial<SystemFacts> => ({ store: { ...sqlite, ...changes } });
const sized = (bytes: number) => ofEtcd({ members: [{ name: 'a', status: { ...answer, isLeader: true, bytes } }] });
const silent = (count: number) =>
  ofEtcd({ members: members.map((it, n) => (n >= members.length - count ? { name: it.name } : it)) });

const at = (...urls: string[]): Partial<SystemFacts> => ({
  replicas: urls.map((url, n) => ({ id: `${n}`, version: '1', url })),
  leader: '0',
});

const rows: readonly (readonly [name: string, status: CheckStatus, changes: Partial<SystemFacts>, message: RegExp])[] =
  [
    ['store', 'pass', {}, /etcd: a write took 5 ms/],
    ['store', 'warn', ofEtcd({ readMs: 200 }), /a read 200 ms/],
    ['store', 'fail', ofSqlite({ writeMs: 2000 }), /sqlite: a write took 2000 ms/],
    ['store', 'fail', { store: undefined }, /does not answer/],
    ['store_members', 'pass', {}, /All 3/],
    ['store_members', 'warn', silent(1), /do not answer: c$/],
    ['store_members', 'warn', ofEtcd({ members: members.slice(0, 2) }), /2 members/],
    ['store_members', 'fail', silent(2), /b, c/],
    ['store_leader', 'pass', {}, /has a leader/],
    ['store_leader', 'fail', ofEtcd({ members: [{ name: 'a', status: answer }] }), /No member/],
    ['store_version', 'pass', {}, /3\.6\.5/],
    [
      'store_version',
      'warn',
      ofEtcd({ members: [...members, { name: 'd', status: { ...answer, version: '3.5.0' } }] }),
      /3\.6\.5, 3\.5\.0/,
    ],
    ['store_alarms', 'pass', {}, /no alarm/],
    ['store_alarms', 'fail', ofEtcd({ alarms: ['NOSPACE'] }), /NOSPACE/],
    ['store_size', 'pass', sized(100 * MiB), /5 % of 2048 MiB/],
    ['store_size', 'warn', sized(1600 * MiB), /78 %/],
    ['store_size', 'fail', sized(2000 * MiB), /98 %/],
    ['store_disk', 'pass', ofSqlite({}), /50000 MiB left/],
    ['store_disk', 'pass', ofSqlite({ freeBytes: undefined }), /in memory/],
    ['store_disk', 'warn', ofSqlite({ freeBytes: 2047 * MiB }), /2047 MiB/],
    ['store_disk', 'fail', ofSqlite({ freeBytes: 255 * MiB }), /255 MiB/],
    ['store_log', 'pass', ofSqlite({}), /1 MiB/],
    ['store_log', 'warn', ofSqlite({ logBytes: 257 * MiB }), /257 MiB/],
    ['store_integrity', 'pass', ofSqlite({}), /sound/],
    ['store_integrity', 'pass', ofSqlite({ fault: 'unchecked' }), /not looked into/],
    ['store_integrity', 'fail', ofSqlite({ fault: 'Page 7: never used' }), /Page 7/],
    ['store_history', 'pass', {}, /1000 revisions/],
    ['store_history', 'warn', { history: 2_000_001 }, /2000001/],
    ['store_history', 'warn', { history: undefined }, /not known/],
    ['mirror', 'pass', {}, /after 3 ms/],
    ['mirror', 'warn', { mirrorMs: 500 }, /500 ms/],
    ['mirror', 'fail', { mirrorMs: undefined }, /does not follow/],
    ['leader', 'pass', {}, /leads/],
    ['leader', 'warn', { leader: 'gone' }, /not in the directory/],
    ['leader', 'fail', { leader: undefined }, /nothing is reconciled/],
    ['replicas', 'pass', {}, /1 replicas, of version 1/],
    ['replicas', 'warn', { replicas: [...good.replicas, { id: 'two', version: '2' }] }, /version 1, 2/],
    ['replicas', 'warn', { replicas: [] }, /0 replicas/],
    ['replica_addresses', 'pass', {}, /of its own/],
    ['replica_addresses', 'pass', at('http://127.0.0.1:7070', 'http://127.0.0.1:7071'), /of its own/],
    ['replica_addresses', 'fail', at('http://10.0.0.1:7070', 'http://10.0.0.1:7070/'), /Two .*10\.0\.0\.1:7070/],
    ['replica_addresses', 'fail', at('http://10.0.0.1:7070', 'http://127.0.0.1:7070'), /Only .*127\.0\.0\.1:7070/],
    ['replica_addresses', 'fail', at('http://[::1]:7070', 'http://10.0.0.1:7070'), /Only/],
    ['signing_keys', 'pass', {}, /31 days old/],
    ['signing_keys', 'warn', { signingKeyAt: '2029-01-01T00:00:00.000Z' }, /516 days old/],
    ['signing_keys', 'pass', { signingKeyAt: '2029-01-01T00:00:00.000Z', signingKeyLifeMs: 365 * 86_400_000 }, /516/],
    ['signing_keys', 'warn', { signingKeyAt: undefined }, /not known/],
    ['clock', 'pass', {}, /contradicts nothing/],
    ['clock', 'fail', { signingKeyAt: '2030-06-01T00:01:00.000Z' }, /behind/],
  ];

describe('a check of the control plane', () => {
  test.each(rows)('%s: %s', (name, status, changes, message) => {
    const found = judgeSystem({ ...good, ...changes }).find((one) => one.name === name);
    expect(found).toMatchObject({ status, message: expect.stringMatching(message), auto_fixable: false });
    expect(found?.remediation === null).toBe(status === 'pass');
    if (status !== 'pass') expect(found?.remediation).not.toBe('');
  });

  it('has a row here', () => {
    const all = [good, { ...good, store: sqlite }].flatMap(judgeSystem).map(({ name }) => name);
    expect(new Set(rows.map(([name]) => name))).toEqual(new Set(all));
  });
});

describe('the diagnosis of the control plane', () => {
  let world: ApiWorld;
  let root: Client;
  let isDown = false;

  class Failing extends ForwardingStore {
    override health(): Promise<StoreHealth> {
      return isDown ? Promise.reject(unavailable('it is down')) : super.health();
    }
  }

  beforeAll(async () => {
    world = await startApi({ wrap: (inner) => new Failing(inner) });
    root = await world.owner();
  });
  afterAll(async () => {
    await world[Symbol.asyncDispose]();
    expect(world.faults).toEqual([]);
  });

  const checkOf = async (name: string): Promise<CheckResult | undefined> => {
    const { status, data } = await root.get('/system/diagnose');
    expect(status).toBe(200);
    return data.checks.find((one: CheckResult) => one.name === name);
  };

  it('is of the store as it is, and finds no leader where none runs', async () => {
    const { data } = await root.get('/system/diagnose');
    expect(data.status).toBe('fail');
    const found = new Map<string, CheckResult>(data.checks.map((one: CheckResult) => [one.name, one]));
    expect(found.get('leader')).toMatchObject({ status: 'fail' });
    for (const name of ['store_history', 'mirror', 'signing_keys', 'clock', 'store_size'])
      expect(found.get(name), name).toMatchObject({ status: 'pass' });
    expect(found.has('store_members')).toBe(!found.has('store_integrity'));
    expect(found.get('store_members')?.status ?? 'pass').toBe('pass');
  });

  it('is answered although the store does not answer', async () => {
    isDown = true;
    try {
      expect(await checkOf('store')).toMatchObject({ status: 'fail', message: 'The store does not answer' });
      expect(await checkOf('store_size')).toBeUndefined();
    } finally {
      isDown = false;
    }
  });

  it('is for superadmins alone', async () => {
    for (const role of ['admin', 'user'] as const)
      expect((await (await world.user(role)).get('/system/diagnose')).status).toBe(403);
  });
});
