import { afterAll, beforeAll, expect, it, vi } from 'vitest';
import { startApi } from '../harness/api.ts';
import type { ApiWorld, Client } from '../harness/api.ts';
import { CommandLine } from '../harness/command-line.ts';

// each command is a process
vi.setConfig({ testTimeout: 120_000 });

let world: ApiWorld;
let owner: Client;
let cli: CommandLine;
let project: string;

beforeAll(async () => {
  world = await startApi();
  owner = await world.owner();
  cli = await CommandLine.open();
  const place = await world.place(owner);
  project = place.project;
  await owner.post('/applications', {
    project_id: place.project,
    server_id: place.server,
    name: 'web',
    source_type: 'git',
    repository_url: 'https://git.test/team/shop.git',
    branch: 'main',
    dockerfile_path: 'Dockerfile',
  });
});
afterAll(async () => {
  await cli[Symbol.asyncDispose]();
  await world[Symbol.asyncDispose]();
  expect(world.faults).toEqual([]);
});

const run = (argv: readonly string[]) =>
  cli.run(['preview', ...argv], '', {
    SETPOINT_URL: world.url,
    SETPOINT_TENANT: 'default',
    SETPOINT_TOKEN: owner.token ?? '',
  });
const commit = 'a'.repeat(40);

it('a preview is created, listed, approved and deleted', async () => {
  const create = ['create', 'pr-1', '--project', project, '--branch', 'feature', '--request', '12', '--ttl', '2'];
  const made = await run([...create, '--no-wait']);
  expect(made).toMatchObject({ code: 0, err: '', out: expect.stringMatching(/^preview pr-1: creating, until \S+\n/) });
  expect((await owner.get('/previews')).data[0]).toMatchObject({ request_number: 12, branch: 'feature' });

  const fork = ['--fork', 'https://git.test/anna/shop.git', '--commit', commit, '--no-wait'];
  const asked = await run(['create', 'pr-2', '--project', project, '--branch', 'patch', ...fork]);
  expect(asked.out).toMatch(/^preview pr-2: awaiting approval, until /);
  const listed = await run(['list']);
  expect(listed.out).toMatch(/^NAME +PROJECT +BRANCH +STATUS +EXPIRES +ADDRESS +AGE +ID\n/);
  expect(listed.out).toMatch(/^pr-2 .* patch +awaiting_approval /m);

  const unseen = await run(['approve', 'pr-2']);
  expect(unseen).toMatchObject({ code: 1, out: '', err: expect.stringContaining(`approve it by --commit ${commit}`) });
  const other = await run(['approve', 'pr-2', '--commit', 'b'.repeat(40)]);
  expect(other).toMatchObject({
    code: 1,
    err: expect.stringContaining(`Another commit is asked for by now, ${commit}`),
  });
  const longer = await run(['extend', 'pr-2', '--ttl', '700']);
  expect(longer).toMatchObject({ code: 0, err: '' });
  const until = Date.parse(/until (\S+)\n/.exec(longer.out)?.[1] ?? '');
  expect(until).toBeGreaterThan(Date.now() + 699 * 3_600_000);
  expect((await run(['extend', 'pr-2'])).err).toContain('--ttl HOURS');
  expect((await run(['approve', 'pr-2', '--commit', commit, '--no-wait'])).out).toMatch(/^preview pr-2: creating, /);

  const deleted = await run(['delete', 'pr-1', '--yes', '--no-wait']);
  expect(deleted).toEqual({ code: 0, out: 'preview pr-1 is being deleted\n', err: '' });
});

it.each([
  [['burn'], 'Cannot burn a preview: list, create, approve, extend or delete it\n'],
  [['create'], 'Name the preview to create: setpoint preview create NAME\n'],
  [['create', 'pr-3'], 'A preview is of a branch, in a project: name both, --branch and --project\n'],
  [['create', 'pr-3', '--ttl', '0'], 'It must be a number of hours from 1 to 720.'],
])('preview %j is refused', async (argv, words) => {
  expect(await run(argv)).toMatchObject({ code: 1, out: '', err: expect.stringContaining(words) });
});
