import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { makePass, passHeader } from '../../../agent-protocol/pass.ts';
import { limits } from '../../../controllers/gateway/limits.ts';
import { FakeBackend } from '../../harness/fake-backend.ts';
import { GatewayWorld, tenant } from '../../harness/gateway-world.ts';
import type { TestReplica } from '../../harness/gateway-world.ts';
import { flood } from '../../harness/silent-sockets.ts';
import { until } from '../../harness/until.ts';
import { WebSocket } from 'ws';
import { subprotocol } from '../../../agent-protocol/messages.ts';

const path = `/${tenant}/agent/v1/connect`;
let world: GatewayWorld;
let replica: TestReplica;
let cleanup: AsyncDisposableStack;

beforeEach(async () => {
  cleanup = new AsyncDisposableStack();
  world = cleanup.use(await GatewayWorld.start());
  replica = await world.replica();
});

afterEach(() => cleanup.disposeAsync());

/** A server whose agent has joined, and is away. */
async function joined(): Promise<{ id: string }> {
  const server = await world.server();
  const backend = new FakeBackend();
  const agent = await world.agent(replica, server, backend);
  await until('it has its set', async () => backend.at !== undefined);
  await agent[Symbol.asyncDispose]();
  return { id: server.id };
}

/** Threads of silent sockets that have taken all that they can get. */
async function flooded(at: TestReplica): Promise<void> {
  const silent = cleanup.use(flood(at.url, path));
  await until('strangers are refused', async () => silent.answered().refused > 50);
  expect(silent.answered().taken).toBeLessThan(10 * limits.admission.strangers.placesEach);
}

/** Opens a connection with these headers; answers 101, or the status of the refusal. */
function statusOf(headers: Record<string, string> = {}, at: TestReplica = replica): Promise<number> {
  const socket = new WebSocket(`${at.url.replace('http', 'ws')}${path}`, subprotocol, { headers });
  cleanup.defer(() => socket.terminate());
  return new Promise((resolve) => {
    socket.on('open', () => resolve(101));
    socket.on('error', () => undefined);
    socket.on('unexpected-response', (_, response) => resolve(response.statusCode ?? 0));
  });
}

describe('while others take all places with sockets that say nothing', () => {
  it('an agent that restarts is back within seconds', async () => {
    const server = await joined();
    const { meta } = await world.assignment(server.id);
    await flooded(replica);
    const backend = new FakeBackend();
    const agent = await world.agent(replica, server, backend);
    await until('it has its set', async () => backend.at !== undefined, { timeoutMs: 10_000 });
    expect(agent.attempts()).toBe(1);
    expect(backend.stored).toMatchObject([{ ids: [meta.id] }]);
    expect(replica.mirror.tenant(tenant).agent(server.id)?.replica).toBe(replica.id);
    expect(await statusOf()).toBe(503);
  });

  it('agents come in after a restart of the control plane, with none connected yet', async () => {
    const servers = await Promise.all(Array.from({ length: 5 }, joined));
    const started = await world.replica();
    await flooded(started);
    const comers = await Promise.all(
      servers.map(async (server) => {
        const backend = new FakeBackend();
        return { server, backend, agent: await world.agent(started, server, backend) };
      }),
    );
    await until('all have their sets', async () => comers.every(({ backend }) => backend.at !== undefined), {
      timeoutMs: 15_000,
    });
    for (const { server, agent } of comers) {
      expect(started.mirror.tenant(tenant).agent(server.id)?.replica).toBe(started.id);
      expect(agent.attempts()).toBe(1);
    }
    expect(await statusOf({}, started)).toBe(503);
  });

  it('a stranger is taken within seconds of their end', async () => {
    const silent = flood(replica.url, path);
    await until('strangers are refused', async () => silent.answered().refused > 50);
    expect(await statusOf()).toBe(503);
    await silent[Symbol.asyncDispose]();
    await until('a place is free', async () => (await statusOf()) === 101, { timeoutMs: 10_000 });
  });
});

describe('a pass', () => {
  /** All places of strangers from this address are taken. */
  async function crowd(): Promise<void> {
    const statuses = await Promise.all(
      Array.from({ length: limits.admission.strangers.placesEach + 1 }, () => statusOf()),
    );
    expect(statuses.filter((it) => it === 503)).toHaveLength(1);
  }

  it('is good once, of late, for the server whose key made it', async () => {
    const server = await joined();
    const identity = await world.identity(server);
    const other = await world.identity(await joined());
    const sign = (bytes: Uint8Array): string => identity.sign(bytes);
    const now = Date.now();
    await crowd();
    const good = makePass(server.id, new Date(now), sign);
    const passes = [
      good,
      good,
      makePass(server.id, new Date(now - 1), sign),
      makePass(server.id, new Date(now + 10 * 60_000), sign),
      makePass(server.id, new Date(now + 1), (bytes) => other.sign(bytes)),
      makePass(other.serverId, new Date(now + 1), sign),
      'nonsense',
    ];
    const statuses: number[] = [];
    for (const pass of passes) statuses.push(await statusOf({ [passHeader]: pass }));
    expect(statuses).toEqual([101, 503, 503, 503, 503, 503, 503]);
    expect(await statusOf({ [passHeader]: makePass(server.id, new Date(now + 2), sign) })).toBe(101);
  });

  it('is forgotten with its server', async () => {
    const server = await joined();
    const identity = await world.identity(server);
    const pass = makePass(server.id, new Date(), (bytes) => identity.sign(bytes));
    await crowd();
    expect(await statusOf({ [passHeader]: pass })).toBe(101);
    expect(await statusOf({ [passHeader]: pass })).toBe(503);
    const it = (await world.repo.get('server', server.id))!;
    const unit = world.repo.begin();
    unit.requestDelete(it);
    unit.release(it, 'server');
    await unit.commit();
    await until('it is gone', async () => replica.mirror.tenant(tenant).get('server', server.id) === undefined);
    await world.create('server', server.id, it.desired);
    await until('it is there', async () => replica.mirror.tenant(tenant).get('server', server.id) !== undefined);
    expect(await statusOf({ [passHeader]: pass })).toBe(101);
  });
});
