import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, it, test } from 'vitest';
import type { CheckStatus, MachineCheck } from '../../../agent-protocol/diagnosis.ts';
import { healableChecks, machineChecks } from '../../../agent-protocol/diagnosis.ts';
import { checks } from '../../../agent/diagnose/checks.ts';
import { mostHealed } from '../../../agent/diagnose/check.ts';
import type { StrayContainer, StrayNetwork, StrayVolume, World } from '../../../agent/diagnose/world.ts';
import type { MissingRules } from '../../../agent/ports/engine-rules.ts';
import type { EngineFacts } from '../../../agent/runtime/runtime.ts';
import { noStrays, quietWorld } from './quiet-world.ts';

const GiB = 1024 ** 3;
const { signal } = new AbortController();

const facts = (changes: Partial<EngineFacts>): Partial<World> => ({
  engine: async () => ({ ...(await quietWorld.engine()), ...changes }),
});
const strays = (changes: Partial<World['strays']>): Partial<World> => ({ strays: { ...noStrays, ...changes } });
const addresses = (free: number, hasSpare: boolean) => facts({ addresses: { total: 31, free, hasSpare } });
const viaProxy = (http: string, https: string) => facts({ proxy: { http, https, none: '' } });
const space = (freeBytes: number): Partial<World> => ({ disk: async () => ({ freeBytes, totalBytes: 100 * GiB }) });
const files = (free: number): Partial<World> => ({
  disk: async () => ({ freeBytes: 50 * GiB, totalBytes: 100 * GiB, files: { free, total: 1000 } }),
});
const unresolved = (...hosts: string[]): Partial<World> => ({
  resolve: async (host) => {
    if (hosts.includes(host)) throw new Error('ENOTFOUND');
    return ['192.0.2.1'];
  },
});
const answering = (answers: Record<string, number | Error>): Partial<World> => ({
  registries: () => Object.keys(answers),
  ask: async (one) => {
    const answer = answers[one]!;
    if (answer instanceof Error) throw answer;
    return answer;
  },
});
const lacking = (missing: MissingRules): Partial<World> => ({ engineRules: async () => missing });
const refused = new Error('ECONNREFUSED');
const refusing: Partial<World> = { connect: () => Promise.reject(refused) };
const taken = { code: 'port_taken', message: 'Port 80 of the server is taken by another program' } as const;
const had = (port: number, name: string): Partial<World> => ({
  listeners: async () => new Set([port]),
  userOfPort: async () => ({ pid: 7, name }),
});
const logs = (changes: Partial<World['logs']>): Partial<World> => ({ logs: { ...quietWorld.logs, ...changes } });

const container = (changes: Partial<StrayContainer> = {}): StrayContainer => ({
  id: '0123456789abcdef',
  server: 'gone',
  isOwn: false,
  isRunning: false,
  ...changes,
});
const network = (changes: Partial<StrayNetwork> = {}): StrayNetwork => ({
  name: 'sp-0123456789ab',
  server: 'gone',
  isUsed: false,
  ...changes,
});
const volume = (bytes: number | undefined, isOwn = true): StrayVolume => ({
  name: `volume-${bytes}`,
  server: isOwn ? 'own' : 'gone',
  isOwn,
  bytes,
});

type Row = readonly [
  name: MachineCheck,
  status: CheckStatus,
  world: Partial<World>,
  message: RegExp,
  isHealable?: boolean,
];

const rows: readonly Row[] = [
  ['engine', 'pass', {}, /answers, version 29\.1\.0/],
  ['engine', 'warn', facts({ version: '20.10.24' }), /no corrections/],
  ['engine', 'fail', { trouble: () => 'its socket is not there' }, /its socket is not there/],
  ['runc', 'pass', {}, /1\.3\.3/],
  ['runc', 'pass', facts({ runc: undefined }), /does not use runc/],
  ['runc', 'warn', facts({ runc: '1.1.5+ds1-1+deb12u1' }), /CVE-2024-21626/],
  ['runc', 'fail', facts({ runc: '1.1.11' }), /CVE-2024-21626/],
  ['live_restore', 'pass', {}, /go on/],
  ['live_restore', 'warn', facts({ liveRestore: false }), /stops all containers/],
  ['disk', 'pass', {}, /51200 MiB of 102400 MiB/],
  ['disk', 'warn', space(8 * GiB), /end at 5120 MiB/, true],
  ['disk', 'fail', space(4 * GiB), /need 5120 MiB/, true],
  ['inodes', 'pass', {}, /900 of 1000/],
  ['inodes', 'pass', space(50 * GiB), /room alone/],
  ['inodes', 'warn', files(99), /99 of 1000/],
  ['inodes', 'fail', files(19), /19 of 1000/],
  ['memory', 'pass', {}, /4096 MiB of 8192 MiB/],
  ['memory', 'warn', { memory: async () => ({ total: 1000, available: 99 }) }, /available/],
  ['memory', 'fail', { memory: async () => ({ total: 1000, available: 49 }) }, /may end instances/],
  ['inotify', 'pass', {}, /10 of 128/],
  ['inotify', 'warn', { inotify: async () => ({ instances: 103, maxInstances: 128, maxWatches: 65_536 }) }, /103 of/],
  ['inotify', 'warn', { inotify: async () => ({ instances: 1, maxInstances: 128, maxWatches: 8191 }) }, /8191 files/],
  ['inotify', 'fail', { inotify: async () => ({ instances: 122, maxInstances: 128, maxWatches: 65_536 }) }, /too many/],
  ['git', 'pass', {}, /git 2\.37\.0 is installed/],
  ['git', 'warn', { git: async () => ({ major: 2, minor: 36, text: '2.36.6' }) }, /by ssh only/],
  ['git', 'warn', { git: async () => undefined }, /no git/],
  ['address_pools', 'pass', {}, /20 of the 31/],
  ['address_pools', 'pass', addresses(2, true), /further addresses/],
  ['address_pools', 'warn', addresses(0, true), /other programs of the machine none/],
  ['address_pools', 'warn', addresses(2, false), /routes to elsewhere/],
  ['address_pools', 'fail', addresses(0, false), /routes to elsewhere/],
  ['firewall', 'pass', {}, /No rule/],
  ['firewall', 'warn', lacking({ tables: [], bridges: ['sp-a', 'sp-b', 'sp-c', 'sp-d'] }), /sp-c and others reach/],
  ['firewall', 'fail', lacking({ tables: ['nat'], bridges: ['sp-a'] }), /table nat\): instances reach nothing outside/],
  ['firewall', 'fail', lacking({ tables: ['filter'], bridges: [] }), /table filter\): instances may get no packets/],
  ['dns', 'pass', {}, /control\.example\.test, registry-1\.docker\.io/],
  ['dns', 'pass', { controlHosts: [], registries: () => [] }, /No name is needed/],
  ['dns', 'warn', unresolved('registry-1.docker.io'), /no address of registry-1\.docker\.io/],
  ['dns', 'fail', unresolved('control.example.test'), /no address of control\.example\.test/],
  ['registry', 'pass', {}, /registry-1\.docker\.io answered/],
  ['registry', 'pass', { ...viaProxy('', 'http://proxy:3128'), ask: () => Promise.reject(refused) }, /its proxy/],
  ['registry', 'warn', answering({ 'a.test': 401, 'b.test': 503 }), /of b\.test/],
  ['registry', 'warn', answering({ 'a.test': 200, 'b.test:5000': refused }), /of b\.test:5000/],
  ['registry', 'fail', answering({ 'a.test': refused }), /of a\.test/],
  ['port_80', 'pass', {}, /is free/],
  ['port_80', 'pass', { port: () => ({ isWanted: true, problem: undefined }) }, /an application's/],
  ['port_80', 'warn', { listeners: async () => new Set([80]) }, /taken by another program/],
  ['port_80', 'warn', had(80, 'nginx'), /taken by another program, nginx:/],
  ['port_80', 'warn', had(80, 'docker-proxy'), /taken by a container \(docker ps --filter publish=80\)/],
  ['port_80', 'warn', { rulesOf: async (port) => (port === 80 ? '0a1b2c' : undefined) }, /0a1b2c/],
  ['port_80', 'fail', { port: (port) => ({ isWanted: true, problem: port === 80 ? taken : undefined }) }, /is taken/],
  ['port_443', 'pass', { listeners: async () => new Set([80]) }, /is free/],
  ['port_443', 'warn', { listeners: async () => new Set([443]) }, /taken by another program/],
  ['port_443', 'fail', { port: () => ({ isWanted: true, problem: taken }) }, /is taken/],
  ['proxy', 'pass', {}, /without a proxy/],
  ['proxy', 'pass', viaProxy('http://proxy:3128', 'http://proxy:3128'), /takes connections: proxy:3128/],
  ['proxy', 'warn', viaProxy('http://proxy:3128', ''), /for http alone/],
  ['proxy', 'fail', viaProxy('', 'proxy'), /is no URL/],
  ['proxy', 'fail', { ...viaProxy('', 'http://user:secret@proxy:3128'), ...refusing }, /no connections: proxy:3128$/],
  ['orphaned_containers', 'pass', {}, /is needed/],
  ['orphaned_containers', 'warn', strays({ containers: async () => [container()] }), /1 stopped and 0 running/, true],
  [
    'orphaned_containers',
    'warn',
    strays({ containers: async () => [container({ isRunning: true })] }),
    /0 stopped and 1 running/,
  ],
  [
    'orphaned_containers',
    'fail',
    strays({ containers: async () => [container({ isOwn: true, isRunning: true })] }),
    /not removed them yet/,
    true,
  ],
  ['orphaned_networks', 'pass', {}, /is needed/],
  ['orphaned_networks', 'warn', strays({ networks: async () => [network()] }), /sp-0123456789ab/, true],
  ['orphaned_networks', 'warn', strays({ networks: async () => [network({ isUsed: true })] }), /not needed/],
  ['orphaned_volumes', 'pass', {}, /is needed/],
  ['orphaned_volumes', 'warn', strays({ volumes: async () => [volume(0)] }), /volume-0/, true],
  ['orphaned_volumes', 'warn', strays({ volumes: async () => [volume(GiB), volume(undefined)] }), /1024 MiB/],
  ['log_storage', 'pass', {}, /1024 MiB of at most 10240 MiB/],
  ['log_storage', 'warn', logs({ size: { bytes: 96, maxBytes: 100 } }), /before their time/, true],
  [
    'log_storage',
    'fail',
    logs({ probe: () => Promise.reject(Object.assign(new Error('no'), { code: 'EROFS' })) }),
    /EROFS/,
  ],
];

/** Checks of which nothing is a failure: what they find harms nothing that runs. */
const neverFail: ReadonlySet<MachineCheck> = new Set(['live_restore', 'git', 'orphaned_networks', 'orphaned_volumes']);

const cases = rows.map(([name, status, changes, message, isHealable = false]) => {
  return { name, status, changes, message, isHealable };
});

const checkOf = (name: MachineCheck) => checks.find((one) => one.name === name)!;

describe('a check of the machine', () => {
  test.each(cases)('$name: $status', async ({ name, status, changes, message, isHealable }) => {
    const found = await checkOf(name).look({ ...quietWorld, ...changes }, signal);
    expect(found).toMatchObject({ status, message: expect.stringMatching(message) });
    expect(found.message).not.toContain('secret');
    expect('isHealable' in found && found.isHealable === true).toBe(isHealable);
    if (found.status !== 'pass') expect(found.remedy).not.toBe('');
  });

  it('has a row here for each status that it can have', () => {
    const wanted = machineChecks.flatMap((name) =>
      (['pass', 'warn', 'fail'] as const)
        .filter((status) => status !== 'fail' || !neverFail.has(name))
        .map((status) => `${name} ${status}`),
    );
    expect(new Set(rows.map(([name, status]) => `${name} ${status}`))).toEqual(new Set(wanted));
  });

  it('can be healed exactly if the protocol names it among those', () => {
    expect(checks.flatMap(({ name, heal }) => (heal === undefined ? [] : [name]))).toEqual(healableChecks);
    expect(checks.map(({ name }) => name)).toEqual(machineChecks);
    expect(new Set(rows.filter((row) => row[4] === true).map(([name]) => name))).toEqual(new Set(healableChecks));
  });

  it('has a row in the page for operators', async () => {
    const page = await readFile(join(import.meta.dirname, '../../../docs/operations.md'), 'utf8');
    const missing = machineChecks.filter((name) => !new RegExp(`^\\| .*\`${name}\`.* \\|`, 'm').test(page));
    expect(missing).toEqual([]);
  });

  it('is at least one of fifteen', () => {
    expect(checks.length).toBeGreaterThanOrEqual(15);
  });
});

describe('healing', () => {
  const heal = (name: MachineCheck, changes: Partial<World>) =>
    checkOf(name).heal!({ ...quietWorld, ...changes }, signal);

  it('removes stopped containers and leaves those that run', async () => {
    const removed: string[] = [];
    const world = strays({
      containers: async () => [container({ id: 'stopped' }), container({ id: 'running', isRunning: true })],
      removeContainer: async ({ id }) => void removed.push(id),
    });
    expect(await heal('orphaned_containers', world)).toEqual([
      { status: 'done', target: 'stopped', message: 'Removed' },
      { status: 'skipped', target: 'running', message: expect.stringContaining('setpoint agent clean --only SERVER') },
    ]);
    expect(removed).toEqual(['stopped']);
  });

  it('lets the agent remove what is left of its own server, also if it runs', async () => {
    const world = strays({ containers: async () => [container({ isOwn: true, isRunning: true })] });
    expect(await heal('orphaned_containers', world)).toMatchObject([{ status: 'done', target: '0123456789ab' }]);
  });

  it('removes networks and rules that no running container uses', async () => {
    const removed: (string | undefined)[] = [];
    const world = strays({
      networks: async () => [network(), network({ name: 'sp-used', isUsed: true }), { server: 'gone', isUsed: false }],
      removeNetwork: async ({ name }) => void removed.push(name),
    });
    expect(await heal('orphaned_networks', world)).toMatchObject([
      { status: 'done', target: 'sp-0123456789ab' },
      { status: 'skipped', target: 'sp-used' },
      { status: 'done', target: 'port rules of gone' },
    ]);
    expect(removed).toEqual(['sp-0123456789ab', undefined]);
  });

  it('never removes a volume with data, or one that it cannot measure', async () => {
    const removed: string[] = [];
    const world = strays({
      volumes: async () => [volume(1), volume(0), volume(undefined)],
      removeVolume: async ({ name }) => void removed.push(name),
    });
    expect(await heal('orphaned_volumes', world)).toMatchObject([
      { status: 'skipped', target: 'volume-1' },
      { status: 'done', target: 'volume-0' },
      { status: 'skipped', target: 'volume-undefined' },
    ]);
    expect(removed).toEqual(['volume-0']);
  });

  it('goes on after one that fails, and leaves what is needed by now', async () => {
    const world = strays({
      networks: async () => [network({ name: 'a' }), network({ name: 'b' }), network({ name: 'c' })],
      removeNetwork: async ({ name }) => {
        if (name === 'a') throw new Error('The engine does not answer');
        return name === 'b' ? 'A container uses it' : undefined;
      },
    });
    expect(await heal('orphaned_networks', world)).toEqual([
      { status: 'failed', target: 'a', message: 'The engine does not answer' },
      { status: 'skipped', target: 'b', message: 'A container uses it' },
      { status: 'done', target: 'c', message: 'Removed' },
    ]);
  });

  it('touches a bounded number of things at once, and tells that there are more', async () => {
    const all = Array.from({ length: mostHealed + 7 }, (_, n) => network({ name: `sp-${n}` }));
    const actions = await heal('orphaned_networks', strays({ networks: async () => all }));
    expect(actions).toHaveLength(mostHealed + 1);
    expect(actions.at(-1)).toMatchObject({ status: 'skipped', message: '7 more are left: heal again' });
  });

  it('tells how much room it made', async () => {
    const free = [4 * GiB, 6 * GiB];
    let cleaned = 0;
    const world: Partial<World> = {
      disk: async () => ({ freeBytes: free.shift()!, totalBytes: 100 * GiB }),
      clean: async () => {
        cleaned += 1;
        return 3;
      },
    };
    expect(await heal('disk', world)).toMatchObject([
      { status: 'done', message: expect.stringMatching(/3 images.*2048 MiB/) },
    ]);
    expect(cleaned).toBe(1);
    const size = { bytes: 3 * GiB, maxBytes: GiB };
    const pruned = logs({ size, prune: async () => void (size.bytes = GiB) });
    expect(await heal('log_storage', pruned)).toMatchObject([{ message: expect.stringContaining('2048 MiB') }]);
  });
});
