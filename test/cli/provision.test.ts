import { afterAll, beforeAll, expect, it, vi } from 'vitest';
import { startApi } from '../harness/api.ts';
import type { ApiWorld, Client } from '../harness/api.ts';
import { CommandLine } from '../harness/command-line.ts';
import type { Printed } from '../harness/command-line.ts';

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

const run = (...argv: string[]): Promise<Printed> =>
  cli.run(argv, '', { SETPOINT_URL: world.url, SETPOINT_TENANT: 'default', SETPOINT_TOKEN: owner.token ?? '' });

it('a server is created with the address and the SSH key of its machine, and tried again by a command', async () => {
  const key = (await owner.post('/settings/ssh-keys', { name: 'fleet' })).data.id as string;
  const place = ['--address', '192.0.2.7', '--port', '2222', '--user', 'ops'];
  const { out, err, code } = await run('create', 'server', 'one', ...place, '--ssh-key', 'fleet');
  expect([err, code]).toEqual(['', 0]);
  expect(out).toBe(
    'server one is created\nIts agent is installed by SSH: setpoint describe server one shows how far that is\n',
  );
  const [server] = (await owner.get('/servers')).data;
  expect(server).toMatchObject({ ip_address: '192.0.2.7', port: 2222, username: 'ops', ssh_key_id: key });
  const tried = await run('provision', 'one');
  expect([tried.err, tried.code, tried.out]).toEqual(['', 0, expect.stringContaining('setpoint describe server one')]);
});

it('a server without an SSH key prints how its agent joins', async () => {
  const { out, code } = await run('create', 'server', 'two');
  expect([code, out]).toEqual([0, expect.stringContaining('Run this on that machine as root')]);
});

it.each([
  [['--address', '192.0.2.7'], 'both'],
  [['--ssh-key', 'fleet'], 'both'],
  [['--address', '192.0.2.7', '--ssh-key', 'fleet', '--port', 'many'], 'A port is a number'],
])('%j is refused', async (flags, words) => {
  const { err, code } = await run('create', 'server', 'three', ...flags);
  expect([code, err]).toEqual([1, expect.stringContaining(words)]);
});
