import { afterAll, beforeAll, expect, it, vi } from 'vitest';
import { startApi } from '../harness/api.ts';
import type { ApiWorld, Client } from '../harness/api.ts';
import { CommandLine } from '../harness/command-line.ts';
import type { Printed } from '../harness/command-line.ts';
import { until } from '../harness/until.ts';
import { longTag } from '../layer-report.ts';

// each command is a process
vi.setConfig({ testTimeout: 120_000 });

let world: ApiWorld;
let owner: Client;
let viewer: Client;
let cli: CommandLine;

beforeAll(async () => {
  world = await startApi();
  owner = await world.owner();
  const user = await world.user();
  const { data: project } = await owner.post('/projects', { name: 'shop' });
  await owner.post(`/projects/${project.id}/members`, { user_id: user.id, role: 'viewer' });
  await owner.post('/servers', { name: 'one' });
  viewer = user;
  cli = await CommandLine.open();
});
afterAll(async () => {
  await cli[Symbol.asyncDispose]();
  await world[Symbol.asyncDispose]();
  expect(world.faults).toEqual([]);
});

const runAs = ({ token = '' }: Client, ...argv: string[]): Promise<Printed> =>
  cli.run(argv, '', { SETPOINT_URL: world.url, SETPOINT_TENANT: 'default', SETPOINT_TOKEN: token });

it.each([[[]], [['--open']]])('who is no admin is told that ports %j are for admins', async (more) => {
  expect(await runAs(viewer, 'ports', 'one', ...more)).toEqual({
    code: 1,
    out: '',
    err: 'The ports of a server are shown to admins of the tenant only, and changed by them\n',
  });
});

it(
  'a server is described to who may not read its events, and says that they are left out',
  { tags: [longTag] },
  async () => {
    const { code, err, out } = await runAs(viewer, 'describe', 'server', 'one');
    expect([code, err]).toEqual([0, '']);
    expect(out).toMatch(/^name +one$/m);
    expect(out).toMatch(/\nEvents, newest first\nYour role may not read them\n$/);
    const json = await runAs(viewer, 'describe', 'server', 'one', '-o', 'json');
    expect([json.code, json.err]).toEqual([0, 'Left out, as your role may not read it: events\n']);
    expect(Object.keys(JSON.parse(json.out))).toEqual(['id', 'name', 'status', 'agent_status']);
    expect(await runAs(viewer, 'events', 'server', 'one')).toMatchObject({ code: 1, out: '' });
  },
);

const run = (...argv: string[]): Promise<Printed> => runAs(owner, ...argv);

it('a server is changed by what is named alone', async () => {
  await owner.post('/settings/ssh-keys', { name: 'fleet' });
  expect((await run('create', 'server', 'moved')).code).toBe(0);
  const find = async () => (await owner.get('/servers?q=moved')).data[0];
  const { id, ...before } = await find();
  const place = ['--address', '192.0.2.9', '--port', '2222', '--user', 'ops', '--ssh-key', 'fleet'];
  expect(await run('set', 'server', 'moved', ...place)).toEqual({
    code: 0,
    out: 'server moved is changed\nIts machine is being provisioned by SSH: `setpoint provision moved --wait` follows it, `setpoint describe server moved` shows how far it is\n',
    err: '',
  });
  const [key] = (await owner.get('/settings/ssh-keys?q=fleet')).data;
  const reached = { ip_address: '192.0.2.9', port: 2222, username: 'ops', ssh_key_id: key.id };
  expect(await find()).toMatchObject({ ...reached, log_retention_days: 7, allowed_projects: 'all' });
  const more = ['--log-retention-days', '30', '--projects', 'shop', '--name', 'moved-on'];
  expect(await run('set', 'server', 'moved', ...more)).toMatchObject({ out: 'server moved-on is changed\n', err: '' });
  const shop = (await owner.get('/projects?q=shop')).data[0].id;
  expect(await find()).toMatchObject({ ...reached, id, log_retention_days: 30, allowed_projects: [shop] });
  const none = ['--address', 'none', '--ssh-key', 'none', '--projects', 'all', '--name', 'moved'];
  expect((await run('set', 'server', 'moved-on', ...none)).code).toBe(0);
  expect(await find()).toMatchObject({ name: 'moved', ip_address: null, ssh_key_id: null, allowed_projects: 'all' });
  expect(before).toMatchObject({ name: 'moved', ip_address: null });
});

it('the proxy of a server is switched on and off, and keeps what is not named', async () => {
  expect((await run('create', 'server', 'edge')).code).toBe(0);
  const ingress = async () => (await owner.get('/servers?q=edge')).data[0].ingress;
  expect(await ingress()).toBeNull();
  const on = ['--ingress', 'on', '--acme-email', 'you@example.com'];
  expect(await run('set', 'server', 'edge', ...on)).toEqual({ code: 0, out: 'server edge is changed\n', err: '' });
  expect(await ingress()).toMatchObject({ enabled: true, http_port: 80, acme_email: 'you@example.com' });
  expect((await run('set', 'server', 'edge', '--ingress', 'off')).code).toBe(0);
  expect(await ingress()).toMatchObject({ enabled: false, acme_email: 'you@example.com' });
  expect((await run('set', 'server', 'edge', '--acme-email', 'none')).code).toBe(0);
  expect(await ingress()).toMatchObject({ enabled: false, acme_email: null });
});

it.each([
  [['server', 'one'], 'Nothing to set: name what changes, by --name or --address, --port, --user, --ssh-key, '],
  [['ssh-key', 'any'], 'Nothing to set: name what changes, by --name or --generate, --private-key, --password\n'],
  [
    ['ssh-key', 'any', '--address', '192.0.2.1'],
    '--address is not an option of an ssh-key: it has --name, --generate, --private-key, --password\n',
  ],
  [['server', 'one', '--generate', 'rsa'], '--generate is not an option of a server: it has --name, --address, '],
  [['server', 'one', '--ssh-key', 'unknown'], 'No ssh-key is called unknown'],
  [['server', 'one', '--log-retention-days', '0'], 'It must be a number of days from 1 to 365.'],
  [
    ['project', 'shop', '--name', 'other'],
    'Cannot set a project: only a server or an ssh-key or a git-credential or a registry or a backup-destination or a git-webhook or a database;',
  ],
])('set %j is refused', async (argv, words) => {
  expect(await run('set', ...argv)).toMatchObject({ code: 1, out: '', err: expect.stringContaining(words) });
});

it('what waits for a server that is away says so at once', async () => {
  const [[project], [server]] = await Promise.all(
    ['/projects?q=shop', '/servers?q=one'].map(async (path) => (await owner.get(path)).data),
  );
  await owner.post('/applications', {
    name: 'web',
    project_id: project.id,
    environment_id: project.default_environment_id,
    server_id: server.id,
    source_type: 'image',
    image_url: 'ghcr.io/web:1',
  });
  const env = { SETPOINT_URL: world.url, SETPOINT_TENANT: 'default', SETPOINT_TOKEN: owner.token ?? '' };
  for (const verb of ['deploy', 'stop']) {
    const running = cli.start([verb, 'web'], env);
    await until(`${verb} says it`, async () =>
      running
        .err()
        .startsWith('… Waits for server one, as its agent has not joined yet: `setpoint describe server one`'),
    );
    expect((await running.interrupt()).code).not.toBe(0);
  }
});

it('the agent of a server is asked for a sign of life', { tags: [longTag] }, async () => {
  world.agents.answer = () => ({});
  const answered = await run('ping', 'one');
  expect(answered).toMatchObject({ code: 0, err: '' });
  expect(answered.out).toMatch(/^The agent of one answers, after \d+(\.\d)? ms\n$/);
  world.agents.answer = undefined;
  expect(await run('ping', 'one')).toMatchObject({ code: 1, err: expect.stringContaining('not connected') });
});
