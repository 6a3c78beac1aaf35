import { afterAll, beforeAll, expect, it, vi } from 'vitest';
import { systemClock } from '../../time/clock.ts';
import { startApi } from '../harness/api.ts';
import type { ApiWorld, Client } from '../harness/api.ts';
import { CommandLine } from '../harness/command-line.ts';
import { until } from '../harness/until.ts';

// each command is a process
vi.setConfig({ testTimeout: 120_000 });

const unlimited = { perMinute: 0, burst: 1 };
/** The control plane answers a request that waits after so much of its four minutes. */
const answerMs = 300;

let world: ApiWorld;
let owner: Client;
let cli: CommandLine;
let place: { project_id: string; server_id: string };

beforeAll(async () => {
  const clock = {
    ...systemClock,
    timer: (ms: number, act: () => void) => systemClock.timer([60_000, 240_000].includes(ms) ? answerMs : ms, act),
  };
  world = await startApi({ clock, config: { rateLimit: unlimited, heavyRateLimit: unlimited } });
  owner = await world.owner();
  cli = await CommandLine.open();
  const { project, server } = await world.place(owner);
  place = { project_id: project, server_id: server };
  const bucket = { provider: 'custom', endpoint: 'https://s3.example.test', bucket: 'backups' };
  const keys = { access_key: 'AKIDOFTHETEST', secret_key: 'sesame' };
  await owner.post('/settings/backup-destinations', { name: 'nightly', ...bucket, ...keys });
});
afterAll(async () => {
  await cli[Symbol.asyncDispose]();
  await world[Symbol.asyncDispose]();
  expect(world.faults).toEqual([]);
});

const run = (...argv: string[]) =>
  cli.run(argv, '', { SETPOINT_URL: world.url, SETPOINT_TENANT: 'default', SETPOINT_TOKEN: owner.token ?? '' });

type Kind = 'backup' | 'restore' | 'preview' | 'sync';

/** Waits for objects of a kind that nothing has looked at yet. */
async function asked(kind: Kind, count = 1): Promise<string[]> {
  let ids: string[] = [];
  await until(`${count} of ${kind} are asked for`, async () => {
    const all = (await owner.get(`/${kind}s`)).data as { id: string; status: string }[];
    ids = all.filter(({ status }) => status === 'pending' || status === 'creating').map(({ id }) => id);
    return ids.length === count;
  });
  return ids;
}

/** Lets the answer to the command go by with what is observed first, and then ends it. */
async function endsLate(kind: Kind, id: string, first: object, last: object): Promise<void> {
  const reconciling = { type: 'Reconciling', status: 'true', reason: 'Working', message: 'It is at work' } as const;
  await world.observe(kind, id, first as never, [reconciling]);
  await new Promise((done) => setTimeout(done, 2 * answerMs));
  await world.observe(kind, id, last as never);
}

const error = { code: 'broken', message: 'the disk is full' };

it('a backup and a restore are followed until they have ended', async () => {
  const { data } = await owner.post('/databases', { ...place, name: 'orders', type: 'postgres' });
  await world.observe('database', data.id, { phase: 'running' });
  const good = { phase: 'completed', size_bytes: 1024 * 1024, finished_at: '2030-01-01T00:00:00.000Z' };
  const [made] = await Promise.all([
    run('backup', 'orders'),
    asked('backup').then(([id = '']) => endsLate('backup', id, { phase: 'running' }, good)),
  ]);
  expect(made).toMatchObject({ code: 0, err: '', out: expect.stringContaining('is completed: 1.0 MiB') });
  const [restored] = await Promise.all([
    run('restore', 'orders', '--yes'),
    asked('restore').then(([id = '']) => endsLate('restore', id, { phase: 'restoring' }, { phase: 'failed', error })),
  ]);
  expect(restored).toMatchObject({ code: 1, out: '', err: expect.stringContaining('the disk is full') });
});

it('each backup of the volumes of an application is waited for', async () => {
  const app = { ...place, name: 'web', source_type: 'image', image_url: 'web:1' };
  const { data: web } = await owner.post('/applications', app);
  for (const name of ['files', 'cache']) {
    const { data } = await owner.post('/volumes', { ...place, name });
    await world.observe('volume', data.id, { phase: 'available' });
    const mount = { workload_type: 'application', workload_id: web.id, mount_path: `/${name}` };
    expect((await owner.post(`/volumes/${data.id}/bind`, mount)).status).toBe(200);
  }
  const end = async (): Promise<void> => {
    const [first = '', second = ''] = await asked('backup', 2);
    await world.observe('backup', first, { phase: 'completed', size_bytes: 1024 } as never);
    await endsLate('backup', second, { phase: 'running' }, { phase: 'failed', error });
  };
  const [made] = await Promise.all([run('backup', 'web'), end()]);
  expect(made).toMatchObject({ code: 1, err: expect.stringContaining('the disk is full') });
  expect(made.out).toMatch(/is completed: 1\.0 KiB/);
  expect((await run('backup', 'web', '--every', '@daily')).code).toBe(0);
  const [scheduled] = await Promise.all([run('schedule', 'run', 'web'), end()]);
  expect(scheduled).toMatchObject({ code: 1, err: expect.stringContaining('the disk is full') });
  expect(scheduled.out).toMatch(/is completed: 1\.0 KiB/);
  const hasty = await run('schedule', 'run', 'web', '--no-wait');
  expect(hasty).toMatchObject({ code: 0, out: expect.stringContaining('are being backed up') });
});

it('a sync that was waited for has to be in sync', async () => {
  const url = 'https://git.example.test/shop.git';
  const { data } = await owner.post('/syncs', {
    ...place,
    name: 'shop',
    repository_url: url,
    branch: 'main',
    path: 'deploy',
  });
  const seen = { differs: [], needs_force: [], runs: [] };
  await world.observe('sync', data.id, { phase: 'in_sync', ...seen });
  // nothing has looked at it within the time
  expect(await run('sync', 'run', 'shop')).toMatchObject({ code: 1, err: expect.stringContaining('not taken up yet') });
  const after = async (observed: object, ...argv: string[]) => {
    const generation = async () => (await world.repo.get('sync', data.id))?.meta.generation;
    const before = await generation();
    const looked = until('it is asked for', async () => (await generation()) !== before).then(() =>
      world.observe('sync', data.id, { ...seen, ...observed } as never),
    );
    return (await Promise.all([run('sync', ...argv), looked]))[0];
  };
  const failed = await after({ phase: 'failed', message: 'deploy/web.yaml: line 3' }, 'run', 'shop');
  expect(failed).toMatchObject({ code: 1, err: expect.stringContaining('Sync shop is failed') });
  expect(failed.out).toContain('deploy/web.yaml: line 3');
  expect((await after({ phase: 'in_sync' }, 'run', 'shop')).code).toBe(0);
  expect((await after({ phase: 'in_sync', message: 'its agent is away' }, 'run', 'shop')).code).toBe(1);
  expect((await after({ phase: 'drifted', message: 'differs' }, 'set', 'shop', '--set', 'A=1')).code).toBe(0);
  expect((await run('sync', 'pause', 'shop')).code).toBe(0);
});

it('a preview that was waited for has to be ready', async () => {
  const git = { source_type: 'git', repository_url: 'https://git.test/shop.git', branch: 'main' };
  await owner.post('/applications', { ...place, name: 'site', dockerfile_path: 'Dockerfile', ...git });
  const create = async (name: string, last: object) => {
    const [made] = await Promise.all([
      run('preview', 'create', name, '--project', place.project_id, '--branch', 'feature'),
      asked('preview').then(([id = '']) => endsLate('preview', id, { phase: 'deploying' }, last)),
    ]);
    return made;
  };
  expect(await create('pr-1', { phase: 'ready' })).toMatchObject({ code: 0, err: '' });
  expect(await create('pr-2', { phase: 'failed' })).toMatchObject({
    code: 1,
    err: expect.stringContaining('Preview pr-2 is failed'),
  });
});
