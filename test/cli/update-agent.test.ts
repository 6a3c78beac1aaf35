import { afterAll, beforeAll, expect, it, vi } from 'vitest';
import { agentCapabilities } from '../../agent-protocol/messages.ts';
import { keys } from '../../store/keys.ts';
import { startApi } from '../harness/api.ts';
import type { ApiWorld, Client } from '../harness/api.ts';
import { CommandLine } from '../harness/command-line.ts';
import type { Printed } from '../harness/command-line.ts';
import { smallRelease } from '../harness/small-release.ts';
import type { SmallRelease } from '../harness/small-release.ts';
import { until } from '../harness/until.ts';
import { longTag } from '../layer-report.ts';

// each command is a process
vi.setConfig({ testTimeout: 120_000 });

let world: ApiWorld;
let release: SmallRelease;
let owner: Client;
let cli: CommandLine;
let server: string;

beforeAll(async () => {
  release = await smallRelease('1.1.0', { 'linux-x64': 'a later agent' });
  world = await startApi({ config: { agentRelease: release.folder } });
  owner = await world.owner();
  cli = await CommandLine.open();
  ({ id: server } = (await owner.post('/servers', { name: 'one' })).data);
});
afterAll(async () => {
  await cli[Symbol.asyncDispose]();
  await world[Symbol.asyncDispose]();
  await release[Symbol.asyncDispose]();
  expect(world.faults).toEqual([]);
});

const run = (...more: string[]): Promise<Printed> =>
  cli.run(['update-agent', 'one', ...more], '', {
    SETPOINT_URL: world.url,
    SETPOINT_TENANT: 'default',
    SETPOINT_TOKEN: owner.token ?? '',
  });

async function agentIs(agentVersion: string, capabilities = [...agentCapabilities, 'update']): Promise<void> {
  const live = { replica: 'r', session: 's', machineId: 'm', agentVersion, capabilities };
  await world.store.txn({ if: [], then: [{ put: keys.agent('default', server), value: JSON.stringify(live) }] });
  await world.settled();
}
const asked = async () => (await world.repo.get('server', server))?.desired.agent_update;

it('says why an agent cannot be updated', { tags: [longTag] }, async () => {
  const none = await run();
  expect([none.code, none.err]).toEqual([1, expect.stringContaining('No agent has joined')]);
  await agentIs('1.0.0', []);
  const old = await run();
  expect([old.code, old.err]).toEqual([1, expect.stringContaining('/install.sh | sh')]);
  await agentIs('1.1.0');
  expect(await run()).toMatchObject({ code: 0, out: 'The agent of one has version 1.1.0 already\n' });
});

it('waits until the new version runs, or says why it does not', async () => {
  await agentIs('1.0.0');
  const begun = await run('--no-wait', '--expect', '1.1.0');
  expect(begun).toMatchObject({ code: 0, out: 'The agent of one, version 1.0.0, updates itself to 1.1.0\n' });
  const { requested_at } = (await asked())!;
  const observed = { phase: 'active' as const, agent_version: '1.0.0' };
  await world.observe('server', server, observed, [
    { type: 'AgentUpdateFailed', status: 'true', reason: 'DiskFull', message: 'Make room' },
  ]);
  expect(await run()).toMatchObject({ code: 1, err: expect.stringContaining('Make room') });

  const update_failure = { version: '1.1.0', requested_at, reason: 'DiskFull', message: 'Make room' };
  await world.observe('server', server, { ...observed, update_failure });
  const succeeding = run();
  await until('it is asked for anew', async () => (await asked())?.requested_at !== requested_at);
  await agentIs('1.1.0');
  await world.observe('server', server, { phase: 'active', agent_version: '1.1.0' });
  expect(await succeeding).toMatchObject({ code: 0, out: expect.stringContaining('It runs version 1.1.0') });
});

it(
  'does not wait for one version while several agents have the identity of the server',
  { tags: [longTag] },
  async () => {
    await agentIs('1.0.0');
    await world.observe('server', server, { phase: 'active', agent_version: '1.0.0' }, [
      { type: 'AgentIdentityConflict', status: 'true', reason: 'SeveralMachines', message: 'Stop the copy' },
    ]);
    expect(await run()).toMatchObject({ code: 1, err: expect.stringContaining('Stop the copy') });
  },
);

it('tells that an agent that is away takes it up once it is back', async () => {
  await world.store.txn({ if: [], then: [{ delete: keys.agent('default', server) }] });
  await world.repo.change('server', server, (draft) => {
    draft.agent_public_key = 'key of the agent';
  });
  await world.observe('server', server, { phase: 'offline', agent_version: '1.0.0' });
  await world.settled();
  expect(await run('--no-wait')).toMatchObject({
    code: 0,
    out: 'The agent of one, version 1.0.0, is not connected: it updates itself to 1.1.0 once it is back\n',
  });
});
