import { generateKeyPairSync } from 'node:crypto';
import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { WebSocketServer } from 'ws';
import type { WebSocket } from 'ws';
import { hashControlKey, proveControl } from '../../../agent-protocol/control-proof.ts';
import { desiredDigest } from '../../../agent-protocol/desired-digest.ts';
import { subprotocol } from '../../../agent-protocol/messages.ts';
import { rotateControlKeys } from '../../../controllers/gateway/control-keys.ts';
import { systemClock } from '../../../time/clock.ts';
import { parseConnections } from '../../../store/connections.ts';
import { keys } from '../../../store/keys.ts';
import { FakeBackend, running } from '../../harness/fake-backend.ts';
import { GatewayWorld } from '../../harness/gateway-world.ts';
import type { TestReplica } from '../../harness/gateway-world.ts';
import { agentKey, rawAgent } from '../../harness/raw-agent.ts';
import type { RawAgent } from '../../harness/raw-agent.ts';
import { until } from '../../harness/until.ts';
import { wireItem } from '../../harness/wire-items.ts';

const day = 24 * 3_600_000;

let world: GatewayWorld;
let replica: TestReplica;
let cleanup: AsyncDisposableStack;

beforeEach(async () => {
  cleanup = new AsyncDisposableStack();
  world = cleanup.use(await GatewayWorld.start());
  replica = await world.replica();
});

afterEach(() => cleanup.disposeAsync());

function attempt(options: Parameters<typeof rawAgent>[1], url = replica.url): RawAgent {
  const agent = rawAgent(url, options);
  cleanup.defer(() => {
    agent.session.goodbye('Test ends');
    agent.socket.terminate();
  });
  return agent;
}

/** Adds so many keys, as they are made in so many days. */
async function rotate(times = 1, inDays = 0): Promise<void> {
  const clock = { ...systemClock, now: () => new Date(Date.now() + inDays * day) };
  for (let n = 0; n < times; n++) await rotateControlKeys({ store: world.store, sealer: world.keyring, clock });
  await replica.mirror.reached(await world.store.revision(), AbortSignal.timeout(5000));
}

const newestHash = (): string => hashControlKey(replica.gateway.controlKey());

describe('a control plane proves itself to an agent', () => {
  it('that joins, by the key that the join token names', async () => {
    const server = await world.server();
    const backend = new FakeBackend();
    expect((await world.identity(server)).controlKeyHash).toBe(newestHash());
    await world.agent(replica, server, backend);
    await until('it is believed', async () => backend.isProven);
    await until('the token is used', async () => (await world.identity({ id: server.id })).joinToken === undefined);
    expect((await world.identity({ id: server.id })).controlKeyHash).toBe(newestHash());
  });

  it('that knows no key yet, which learns it at once', async () => {
    const server = await world.server();
    const key = agentKey();
    const agent = attempt({ server: server.id, key, token: server.token });
    expect(await agent.outcome).toBe('welcome');
    expect(agent.verdict()).toEqual({ kind: 'proven', keyHash: newestHash() });
  });

  it('that knows the key of before a rotation, and takes up the new one', async () => {
    const server = await world.server();
    const key = agentKey();
    const old = newestHash();
    await attempt({ server: server.id, key, token: server.token, controlKeyHash: old }).outcome;
    await rotate(2);
    expect(newestHash()).not.toBe(old);
    const agent = attempt({ server: server.id, key, controlKeyHash: old });
    expect(await agent.outcome).toBe('welcome');
    expect(agent.verdict()).toEqual({ kind: 'proven', keyHash: newestHash() });
  });

  it('with a join token that was made before a rotation', async () => {
    const server = await world.server();
    const named = newestHash();
    await rotate();
    const backend = new FakeBackend();
    await world.agent(replica, server, backend);
    await until('it is believed', async () => backend.isProven);
    await until(
      'the new key is known',
      async () => (await world.identity({ id: server.id })).controlKeyHash === newestHash(),
    );
    expect(newestHash()).not.toBe(named);
    expect((await world.identity({ id: server.id })).joinToken).toBeUndefined();
    expect(backend.stored).toHaveLength(1);
  });

  it('that stayed connected for many rotations within a year, and connects again', async () => {
    const server = await world.server();
    const key = agentKey();
    const old = newestHash();
    const first = attempt({ server: server.id, key, token: server.token, controlKeyHash: old });
    expect(await first.outcome).toBe('welcome');
    await rotate(9);
    await rotate(9, 399);
    first.socket.terminate();
    const agent = attempt({ server: server.id, key, controlKeyHash: old });
    expect(await agent.outcome).toBe('welcome');
    expect(agent.verdict()).toEqual({ kind: 'proven', keyHash: newestHash() });
  });

  it('but not to one that was away for eight rotations and more than a year, until that gets another token', async () => {
    const server = await world.server();
    const key = agentKey();
    const old = newestHash();
    await attempt({ server: server.id, key, token: server.token, controlKeyHash: old }).outcome;
    await rotate();
    await rotate(6, 401);
    expect(await attempt({ server: server.id, key, controlKeyHash: old }).outcome).toBe('welcome');
    await rotate(1, 402);
    expect(await attempt({ server: server.id, key, controlKeyHash: old }).outcome).toBe('unauthorized');
  });

  it('but not, once a backup was restored that lacks the key, to one that knows it, until that gets another token', async () => {
    const server = await world.server();
    const key = agentKey();
    await attempt({ server: server.id, key, token: server.token, controlKeyHash: newestHash() }).outcome;
    const backup = await world.store.get(keys.meta('control-keys'));
    await rotate();
    const learned = newestHash();
    await world.store.txn({ if: [], then: [{ put: keys.meta('control-keys'), value: backup?.value ?? '' }] });
    await replica.mirror.reached(await world.store.revision(), AbortSignal.timeout(5000));
    const end = await attempt({ server: server.id, key, controlKeyHash: learned }).ended;
    expect(end).toMatchObject({
      kind: 'refused',
      code: 'unauthorized',
      message: expect.stringContaining('setpoint join'),
    });
    expect(await attempt({ server: server.id, key, controlKeyHash: newestHash() }).outcome).toBe('welcome');
  });
});

it('a server whose agent knows a key that the store lacks does not look connected, and has the reason', async () => {
  const server = await world.server();
  const key = agentKey();
  const first = attempt({ server: server.id, key, token: server.token, controlKeyHash: newestHash() });
  expect(await first.outcome).toBe('welcome');
  first.session.goodbye('Test');
  const live = async () => world.store.get(keys.agent('acme', server.id));
  await until('it left', async () => (await live()) === undefined);
  const record = async () => parseConnections(await world.store.get(keys.connections('acme', server.id)));
  for (let time = 0; time < 2; time++) {
    expect(await attempt({ server: server.id, key, controlKeyHash: 'x'.repeat(22) }).outcome).toBe('unauthorized');
    expect(await live()).toBeUndefined();
    expect((await record())?.lost).toMatchObject({
      refused: 'UnknownKey',
      why: expect.stringContaining('setpoint join'),
    });
  }
  const again = attempt({ server: server.id, key, controlKeyHash: newestHash() });
  expect(await again.outcome).toBe('welcome');
  expect((await record())?.lost?.refused).toBeUndefined();
});

describe('an agent of an earlier release', () => {
  it('asks for no proof, and gets none', async () => {
    const server = await world.server();
    const key = agentKey();
    const agent = attempt({ server: server.id, key, token: server.token });
    const welcome = Promise.withResolvers<Record<string, unknown>>();
    const send = agent.socket.send.bind(agent.socket);
    agent.socket.send = (data: string) => {
      const { control: _, ...hello } = JSON.parse(data) as Record<string, unknown>;
      send(JSON.stringify(hello));
    };
    agent.socket.on('message', (data: Buffer) => {
      const message = JSON.parse(data.toString()) as Record<string, unknown>;
      if (message['type'] === 'welcome') welcome.resolve(message);
    });
    expect(await welcome.promise).not.toHaveProperty('proof');
  });
});

/** Answers each agent that connects with a challenge, a welcome, an empty snapshot and deltas that drop all that it hears of. */
async function impostor(proofFor: (hello: { server_id: string; control: { nonce: string } }) => object | undefined) {
  const server = new WebSocketServer({ port: 0, host: '127.0.0.1', handleProtocols: () => subprotocol });
  await once(server, 'listening');
  cleanup.defer(async () => {
    for (const client of server.clients) client.terminate();
    server.close();
    await once(server, 'close');
  });
  let attempts = 0;
  server.on('connection', (socket: WebSocket) => {
    attempts++;
    const send = (message: object): void => socket.send(JSON.stringify(message));
    let hello: Parameters<typeof proofFor>[0];
    socket.on('message', (data: Buffer) => {
      const message = JSON.parse(data.toString()) as { type: string; items?: { id: string }[] } & typeof hello;
      if (message.type === 'hello') {
        hello = message;
        send({ type: 'challenge', nonce: 'n' });
      } else if (message.type === 'proof') {
        const proof = proofFor(hello);
        const welcome = { protocol: 1, session: 's', epoch: 1, beat_ms: 5000, lease_ms: 30_000, log_retention_days: 1 };
        send({ type: 'welcome', ...welcome, ...(proof !== undefined && { proof }) });
        const position = { incarnation: 'mine', revision: 1 };
        send({ type: 'snapshot.begin', ...position, count: 0, digest: desiredDigest([]), keep: [] });
        send({ type: 'snapshot.end', revision: 1 });
      } else if (message.type === 'report')
        send({ type: 'delta', from: 1, to: 2, put: [], drop: (message.items ?? []).map(({ id }) => id) });
    });
  });
  const { port } = server.address() as AddressInfo;
  return { url: `http://127.0.0.1:${port}`, attempts: () => attempts };
}

function ownKey() {
  const { privateKey } = generateKeyPairSync('ed25519');
  return { public: privateKey.export({ format: 'jwk' }).x ?? '', private: privateKey };
}

describe('a stranger that poses as the control plane', () => {
  it.each([
    ['proves nothing', () => undefined],
    [
      'proves itself by a key of its own',
      ({ server_id, control }: { server_id: string; control: { nonce: string } }) => {
        const key = ownKey();
        return proveControl(key, key.public, { server: server_id, nonce: control.nonce, session: 's' });
      },
    ],
    [
      'signs by a key of its own for the right one',
      ({ server_id, control }: { server_id: string; control: { nonce: string } }) => {
        const key = { ...ownKey(), public: replica.gateway.controlKey() };
        return proveControl(key, key.public, { server: server_id, nonce: control.nonce, session: 's' });
      },
    ],
  ])('and %s is sent nothing and removes nothing', async (_, proofFor) => {
    const false_ = await impostor(proofFor);
    const server = await world.server();
    const backend = new FakeBackend();
    for (const id of ['a', 'b', 'c']) {
      backend.items.set(id, wireItem(id));
      backend.setReport(running(wireItem(id)));
    }
    await world.agent(false_, server, backend);
    await until('it was tried again', async () => false_.attempts() > 2);
    expect([backend.isProven, backend.stored, [...backend.items.keys()]]).toEqual([undefined, [], ['a', 'b', 'c']]);
    expect((await world.identity({ id: server.id })).joinToken).toBe(server.token);
  });

  it('and repeats the proof of another session is not believed', async () => {
    const server = await world.server();
    const key = agentKey();
    const seen = Promise.withResolvers<object>();
    const real = attempt({ server: server.id, key, token: server.token });
    real.socket.on('message', (data: Buffer) => {
      const message = JSON.parse(data.toString()) as { type: string; proof: object };
      if (message.type === 'welcome') seen.resolve(message.proof);
    });
    const proof = await seen.promise;
    const false_ = await impostor(() => proof);
    const agent = attempt({ server: server.id, key, controlKeyHash: newestHash() }, false_.url);
    expect(await agent.outcome).toBe('The proof of the control plane is wrong');
    expect(agent.backend.stored).toEqual([]);
  });
});
