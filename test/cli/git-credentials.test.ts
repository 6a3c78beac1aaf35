import { afterAll, beforeAll, expect, it, vi } from 'vitest';
import { startApi } from '../harness/api.ts';
import type { ApiWorld, Client } from '../harness/api.ts';
import { CommandLine } from '../harness/command-line.ts';

// each command is a process
vi.setConfig({ testTimeout: 120_000 });

let world: ApiWorld;
let owner: Client;
let cli: CommandLine;

beforeAll(async () => {
  world = await startApi();
  owner = await world.owner();
  cli = await CommandLine.open();
});
afterAll(async () => {
  await cli[Symbol.asyncDispose]();
  await world[Symbol.asyncDispose]();
  expect(world.faults).toEqual([]);
});

const environment = () => ({
  SETPOINT_URL: world.url,
  SETPOINT_TENANT: 'default',
  SETPOINT_TOKEN: owner.token ?? '',
});
const run = (argv: readonly string[], stdin = '') => cli.run(argv, stdin, environment());
const find = async (name: string) => (await owner.get(`/settings/git-credentials?q=${name}`)).data[0];
const hostKey = 'ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl';

it('a token is read from standard input, replaced, named by an application, and deleted once none uses it', async () => {
  const made = await run(
    ['create', 'git-credential', 'lab', '--host', 'git.example.com', '--access-token'],
    'sesame\n',
  );
  expect(made).toEqual({ code: 0, out: 'git-credential lab is created (token for git.example.com)\n', err: '' });
  const { id } = await find('lab');
  const secretOf = async () => (await world.repo.get('git_credential', id))!.desired.credential;
  const before = await secretOf();
  const set = await run(['set', 'git-credential', 'lab', '--access-token', '--username', 'oauth2'], 'another\n');
  expect(set).toEqual({ code: 0, out: 'git-credential lab is changed\n', err: '' });
  expect(await secretOf()).toMatchObject({ type: 'token', username: 'oauth2' });
  expect(await secretOf()).not.toMatchObject({ token: (before as { token: object }).token });

  await world.place(owner);
  const [project] = (await owner.get('/projects')).data;
  const [server] = (await owner.get('/servers')).data;
  const file = await cli.file(
    'application.yaml',
    [
      'apiVersion: setpoint/v1',
      'kind: Application',
      'metadata: { name: web }',
      'spec:',
      `  project: ${project.name}`,
      `  server: ${server.name}`,
      '  source_type: git',
      '  repository_url: https://git.example.com/web.git',
      '  branch: main',
      '  dockerfile_path: Dockerfile',
      '  git_credential: lab',
    ].join('\n'),
  );
  const applied = await run(['apply', '--file', file, '--no-deploy']);
  expect([applied.code, applied.err]).toEqual([0, '']);
  expect(await find('lab')).toMatchObject({ status: 'used' });
  expect((await run(['apply', '--file', file, '--no-deploy'])).out).toContain('unchanged');
  expect((await run(['get', 'git-credentials'])).out).toMatch(/lab +token +git\.example\.com +1 /);
  const refused = await run(['delete', 'git-credential', 'lab', '--yes']);
  expect([refused.code, refused.err]).toEqual([1, expect.stringContaining('is used by web')]);
  const [app] = (await owner.get('/applications?q=web')).data;
  await owner.put(`/applications/${app.id}`, { git_credential_id: null });
  expect((await run(['delete', 'git-credential', 'lab', '--yes'])).code).toBe(0);
});

it('a deploy key is made with the keys of its host, and its public half printed', async () => {
  const file = await cli.file('host.keys', `# git.example.com:22 SSH-2.0\ngit.example.com ${hostKey}\n`);
  const create = ['create', 'git-credential', 'hub', '--host', 'git.example.com'];
  const lacks = await run(create);
  expect([lacks.code, lacks.err]).toEqual([1, expect.stringContaining('ssh-keyscan HOST')]);
  const made = await run([...create, '--host-keys', file]);
  expect([made.code, made.out]).toEqual([
    0,
    expect.stringMatching(
      /^git-credential hub is created \(ssh for git\.example\.com\)\nAdd this deploy key[^\n]+:\n {2}ssh-ed25519 /,
    ),
  ]);
  expect(await find('hub')).toMatchObject({ type: 'ssh', host_keys: [hostKey] });
  expect((await run(['describe', 'git-credential', 'hub'])).out).toContain(hostKey);
});
