import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { reconnectsOf } from '../../../store/connections.ts';
import { keys } from '../../../store/keys.ts';
import { CountingStore } from '../../harness/counting-store.ts';
import { eventually } from '../../harness/eventually.ts';
import { GatewayWorld, tenant } from '../../harness/gateway-world.ts';
import type { TestReplica } from '../../harness/gateway-world.ts';
import { agentKey, rawAgent } from '../../harness/raw-agent.ts';
import type { RawAgent } from '../../harness/raw-agent.ts';
import { until } from '../../harness/until.ts';

let world: GatewayWorld;
let store: CountingStore;
let one: TestReplica;
let other: TestReplica;
let server: { id: string; token: string };
const key = agentKey();
const options = { timeoutMs: 5000, signal: new AbortController().signal };

beforeEach(async () => {
  world = await GatewayWorld.start({ wrap: (inner) => (store = new CountingStore(inner)) });
  one = await world.replica();
  other = await world.replica();
  server = await world.server();
  await eventually(one.mirror, () => one.mirror.key(keys.replica(other.id)));
  await eventually(other.mirror, () => other.mirror.key(keys.replica(one.id)));
});

afterEach(() => world[Symbol.asyncDispose]());

async function connected(to: TestReplica): Promise<RawAgent> {
  const agent = rawAgent(to.url, { server: server.id, key, token: server.token });
  expect(await agent.outcome).toBe('welcome');
  return agent;
}

const recordAt = (replica: TestReplica) => replica.mirror.tenant(tenant).connections(server.id);
const isAway = async (replica: TestReplica) => replica.mirror.tenant(tenant).agent(server.id) === undefined;

describe('the connections of an agent', () => {
  it('are counted across replicas, and a loss is told with its time and reason', async () => {
    const first = await connected(one);
    await world.connected(other, server.id);
    expect(recordAt(other)).toMatchObject({ again: [] });
    expect(other.mirror.tenant(tenant).agent(server.id)?.since).toMatch(/^\d{4}-/);

    first.session.goodbye('Agent stops');
    await until('it is away', () => isAway(other));
    expect(recordAt(other)).toMatchObject({ again: [] });
    expect(recordAt(other)).not.toHaveProperty('lost');

    const second = await connected(other);
    await eventually(one.mirror, () => recordAt(one)?.again.length === 1);
    second.socket.terminate();
    await until('it is away again', () => isAway(one));
    await eventually(one.mirror, () => recordAt(one)?.lost);
    expect(recordAt(one)?.lost).toMatchObject({ why: expect.stringContaining('1006') });

    const third = await connected(one);
    await eventually(other.mirror, () => recordAt(other)?.again.length === 2);
    expect(reconnectsOf(recordAt(other), new Date())).toBe(2);
    third.session.goodbye('Agent stops');
  });

  it('that is still open when the agent connects again counts as lost', async () => {
    const first = await connected(one);
    const second = await connected(other);
    expect(await first.ended).toMatchObject({ kind: 'goodbye', reason: 'superseded' });
    await eventually(one.mirror, () => recordAt(one)?.lost);
    expect(recordAt(one)).toMatchObject({ again: [expect.any(Number)], lost: { why: /connected again/ } });
    second.session.goodbye('Agent stops');
  });

  it('have a round trip that every replica can tell, and beats write nothing', async () => {
    const agent = await connected(one);
    await world.connected(other, server.id);
    expect(await other.gateway.roundTrips(tenant, [server.id], options)).toEqual(new Map());
    await until('what the connection writes is written', async () => recordAt(one) !== undefined);
    const writes = store.writes;
    for (let n = 100; n < 120; n++)
      agent.socket.send(JSON.stringify({ type: 'beat', n, load: agent.backend.load(), round_trip_ms: n / 10 }));
    const told = async (replica: TestReplica) =>
      (await replica.gateway.roundTrips(tenant, [server.id, 'none'], options)).get(server.id) === 11.9;
    await until('the replica that holds the agent knows it', () => told(one));
    expect(await told(other)).toBe(true);
    expect(store.writes).toBe(writes);
    agent.session.goodbye('Agent stops');
  });

  it('of which the holder cannot be reached have no round trip, and the answer comes in time', async () => {
    const agent = await connected(one);
    await world.connected(other, server.id);
    await world.store.txn({
      if: [],
      then: [{ put: keys.replica(one.id), value: JSON.stringify({ url: 'http://127.0.0.1:1', version: '0' }) }],
    });
    await eventually(other.mirror, () => other.mirror.key(keys.replica(one.id))?.value.includes(':1"'));
    expect(await other.gateway.roundTrips(tenant, [server.id], { ...options, timeoutMs: 500 })).toEqual(new Map());
    agent.session.goodbye('Agent stops');
  });

  it('are forgotten with the server', async () => {
    const agent = await connected(one);
    expect(await world.store.get(keys.connections(tenant, server.id))).toBeDefined();
    const it = await world.repo.get('server', server.id);
    if (it === undefined) throw new Error('There is no server');
    const unit = world.repo.begin();
    unit.requestDelete(it);
    unit.release(it, 'server');
    expect(await unit.commit()).toMatchObject({ committed: true });
    expect(await world.store.get(keys.connections(tenant, server.id))).toBeUndefined();
    await agent.ended;
    expect(await world.store.get(keys.connections(tenant, server.id))).toBeUndefined();
  });
});
