import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { DesiredOf } from '../../../store/kinds/kinds.ts';
import { eventually } from '../../harness/eventually.ts';
import { FakeBackend } from '../../harness/fake-backend.ts';
import { GatewayWorld, tenant } from '../../harness/gateway-world.ts';
import type { TestReplica } from '../../harness/gateway-world.ts';
import { agentKey, rawAgent } from '../../harness/raw-agent.ts';
import type { RawAgent } from '../../harness/raw-agent.ts';
import { until } from '../../harness/until.ts';

const requested_at = '2030-01-01T00:00:00.000Z';
const wanted = { version: '1.1.0', requested_at };
const asked = { version: '1.1.0', requestedAt: requested_at };

let world: GatewayWorld;
let replica: TestReplica;
let agents: RawAgent[];

beforeEach(async () => {
  world = await GatewayWorld.start();
  replica = await world.replica();
  agents = [];
});
afterEach(async () => {
  for (const agent of agents) agent.session.goodbye('The test is over');
  await world[Symbol.asyncDispose]();
});

/** An agent of version 1.0.0 that has connected, on a server of that state. */
async function connected(
  state: Partial<DesiredOf<'server'>>,
  { capabilities = ['update'], backend = new FakeBackend() }: { capabilities?: string[]; backend?: FakeBackend } = {},
): Promise<RawAgent & { id: string }> {
  const { id, token } = await world.server(state);
  const agent = rawAgent(replica.url, { server: id, key: agentKey(), token, backend, capabilities });
  agents.push(agent);
  expect(await agent.outcome).toBe('welcome');
  return { ...agent, id };
}

const live = (server: string) => replica.mirror.tenant(tenant).agent(server);

describe('the version that a server is to run', () => {
  it('comes with the welcome', async () => {
    const { backend } = await connected({ agent_update: wanted });
    expect(backend.update).toEqual(asked);
  });

  it('comes when it is set, and each time that it is set anew', async () => {
    const { id, backend } = await connected({});
    expect(backend.update).toBeUndefined();
    await world.repo.change('server', id, (draft) => void (draft.agent_update = wanted));
    await until('it came', async () => backend.update?.requestedAt === requested_at);
    const later = '2030-01-01T00:10:00.000Z';
    await world.repo.change('server', id, (draft) => void (draft.agent_update = { ...wanted, requested_at: later }));
    await until('it came again', async () => backend.update?.requestedAt === later);
  });

  it('is not sent to an agent whose server is being deleted: it is to remove itself', async () => {
    const { id, token } = await world.server({ agent_update: wanted });
    const key = agentKey();
    const first = rawAgent(replica.url, { server: id, key, token, capabilities: [] });
    agents.push(first);
    expect(await first.outcome).toBe('welcome');
    await world.delete('server', id);
    await eventually(replica.mirror, () => replica.mirror.tenant(tenant).get('server', id)?.meta.deletionRequestedAt);
    const backend = new FakeBackend();
    const again = rawAgent(replica.url, { server: id, key, capabilities: ['update'], backend });
    agents.push(again);
    expect(await again.outcome).toBe('welcome');
    expect(backend.update).toBeUndefined();
    await world.repo.change('server', id, (draft) => void (draft.log_retention_days = 90));
    await until('the settings came', async () => backend.retentionDays === 90);
    expect(backend.update).toBeUndefined();
  });

  it.each([
    ['cannot update itself', { agent_update: wanted }, [] as string[]],
    ['runs it already', { agent_update: { ...wanted, version: '1.0.0' } }, ['update']],
    ['runs a later one', { agent_update: { ...wanted, version: '0.9.9' } }, ['update']],
  ])('is not sent to an agent that %s', async (_, state, capabilities) => {
    const { id, backend } = await connected(state, { capabilities });
    expect(backend.update).toBeUndefined();
    await world.repo.change('server', id, (draft) => void (draft.log_retention_days = 90));
    await until('the settings came', async () => backend.retentionDays === 90);
    expect(backend.update).toBeUndefined();
  });
});

it('that was done is not asked for again where an earlier version was put back on the machine', async () => {
  const { id, token } = await world.server({ agent_update: wanted });
  const it = await world.repo.get('server', id);
  const seen = { phase: 'active' as const, update_done: requested_at, observedGeneration: 1, conditions: [] };
  await world.repo.observe(it!, seen, []);
  const backend = new FakeBackend();
  const agent = rawAgent(replica.url, { server: id, key: agentKey(), token, backend, capabilities: ['update'] });
  agents.push(agent);
  expect(await agent.outcome).toBe('welcome');
  expect(backend.update).toBeUndefined();
  const later = { ...wanted, requested_at: '2030-01-01T00:10:00.000Z' };
  await world.repo.change('server', id, (draft) => void (draft.agent_update = later));
  await until('it is asked for anew', async () => backend.update?.requestedAt === later.requested_at);
});

describe('why an update failed', () => {
  const failed = { ...wanted, reason: 'NotTrusted', message: 'It is signed by an unknown key' };
  const shown = { version: '1.1.0', requestedAt: requested_at, reason: 'NotTrusted', message: failed.message };

  it('is known from the beginning of a session, and no longer once it is not so', async () => {
    const backend = new FakeBackend();
    backend.failedUpdate = failed;
    const { id, socket } = await connected({ agent_update: wanted }, { backend });
    await eventually(replica.mirror, () => live(id));
    expect(live(id)?.updateFailure).toEqual(shown);
    const beat = { type: 'beat', n: 77, load: backend.load(), engine: { version: '1' } };
    socket.send(JSON.stringify(beat));
    await eventually(replica.mirror, () => live(id)?.updateFailure === undefined);
  });

  it('is known when a beat brings it, and what is no such report is not', async () => {
    const { id, socket, backend } = await connected({ agent_update: wanted });
    const beat = { type: 'beat', n: 77, load: backend.load(), engine: { version: '1' } };
    socket.send(JSON.stringify({ ...beat, update: { ...failed, reason: '<b>' } }));
    socket.send(JSON.stringify({ ...beat, n: 78, update: failed }));
    await eventually(replica.mirror, () => live(id)?.updateFailure?.reason === 'NotTrusted');
    expect(live(id)?.engineTrouble).toBeUndefined();
  });
});
