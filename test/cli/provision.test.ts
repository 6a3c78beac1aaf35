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

const env = () => ({ SETPOINT_URL: world.url, SETPOINT_TENANT: 'default', SETPOINT_TOKEN: owner.token ?? '' });
const run = (...argv: string[]): Promise<Printed> => cli.run(argv, '', env());

it('a server is created with the address and the SSH key of its machine, and tried again by a command', async () => {
  const key = (await owner.post('/settings/ssh-keys', { name: 'fleet' })).data.id as string;
  const place = ['--address', '192.0.2.7', '--port', '2222', '--user', 'ops'];
  const { out, err, code } = await run('create', 'server', 'one', ...place, '--ssh-key', 'fleet');
  expect(code).toBe(0);
  expect(err).toMatch(/^Warning: By http, others on the network can read .*SETPOINT_ALLOW_PLAIN_HTTP=true/);
  expect(out).toBe(
    'server one is created\nIts machine is being provisioned by SSH: `setpoint provision one --wait` follows it, `setpoint describe server one` shows how far it is\n',
  );
  const [server] = (await owner.get('/servers')).data;
  expect(server).toMatchObject({ ip_address: '192.0.2.7', port: 2222, username: 'ops', ssh_key_id: key });
  const tried = await run('provision', 'one');
  expect([tried.err, tried.code, tried.out]).toEqual(['', 0, expect.stringContaining('setpoint describe server one')]);
});

it('a provisioning is followed step by step, to its failure with what to do, and to an active server', async () => {
  const [server] = (await owner.get('/servers?q=one')).data;
  const condition = (type: string, status: 'true' | 'false' | 'unknown', reason: string, message: string) => ({
    type,
    status,
    reason,
    message,
  });
  const observe = (phase: 'provisioning' | 'error' | 'active', conditions: ReturnType<typeof condition>[]) =>
    world.observe('server', server.id, { phase }, conditions);
  const reached = condition('Reachable', 'true', 'Answers', 'An SSH server answers');
  const waits = condition('LoggedIn', 'unknown', 'Pending', 'It waits for the steps before it');
  await observe('provisioning', [reached, waits]);
  const first = cli.start(['provision', 'one', '--wait'], env());
  await first.prints('  Reachable: An SSH server answers\n');
  const refused = condition('Ready', 'false', 'LoginRefused', 'It refuses the key: add it');
  await observe('error', [reached, condition('LoggedIn', 'false', 'LoginRefused', 'It refuses'), refused]);
  expect(await first.ended()).toEqual({
    code: 1,
    out: '  Reachable: An SSH server answers\n',
    err: 'server one could not be provisioned: It refuses the key: add it\n',
  });
  const joins = condition('AgentJoined', 'unknown', 'Joining', 'The control plane waits for it');
  await observe('provisioning', [reached, joins]);
  const second = cli.start(['provision', 'one', '--wait'], env());
  await second.prints('  AgentJoined: The control plane waits for it …\n');
  await observe('active', [condition('Ready', 'true', 'Connected', 'Its agent is connected')]);
  expect(await second.ended()).toMatchObject({
    code: 0,
    err: '',
    out: expect.stringMatching(/\nserver one is active/),
  });
});

it('a server without an SSH key prints how its agent joins', async () => {
  const { out, code } = await run('create', 'server', 'two');
  expect([code, out]).toEqual([0, expect.stringContaining('Run this on that machine as root')]);
});

it.each([
  [['--address', '192.0.2.7'], 'both'],
  [['--ssh-key', 'fleet'], 'both'],
  [['--wait'], '--wait follows what is done by SSH'],
  [['--address', '192.0.2.7', '--ssh-key', 'fleet', '--port', 'many'], 'A port is a number'],
])('%j is refused', async (flags, words) => {
  const { err, code } = await run('create', 'server', 'three', ...flags);
  expect([code, err]).toEqual([1, expect.stringContaining(words)]);
});
