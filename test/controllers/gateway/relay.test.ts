import { randomBytes } from 'node:crypto';
import { Readable } from 'node:stream';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { WebSocket } from 'ws';
import { z } from 'zod';
import { CallError } from '../../../agent-protocol/call-error.ts';
import { systemClock } from '../../../time/clock.ts';
import { encodeLogChunk } from '../../../agent-protocol/log-stream.ts';
import type { LogChunk } from '../../../agent-protocol/logs.ts';
import type { LogStreamParams, TerminalParams } from '../../../agent-protocol/messages.ts';
import { AgentAway, CallFailed } from '../../../controllers/gateway/agent-errors.ts';
import { clusterKey } from '../../../controllers/gateway/cluster-key.ts';
import { limits } from '../../../controllers/gateway/limits.ts';
import { relayCall } from '../../../controllers/gateway/relay-client.ts';
import {
  relayPass,
  relayPassHeader,
  relayProof,
  relaySubprotocol,
} from '../../../controllers/gateway/relay-messages.ts';
import { keys } from '../../../store/keys.ts';
import { eventually } from '../../harness/eventually.ts';
import { FakeBackend } from '../../harness/fake-backend.ts';
import { GatewayWorld, tenant } from '../../harness/gateway-world.ts';
import type { TestReplica } from '../../harness/gateway-world.ts';
import { agentKey, rawAgent } from '../../harness/raw-agent.ts';
import { until } from '../../harness/until.ts';
import { within } from '../../harness/within.ts';

const params: LogStreamParams = { kind: 'logs', follow: { workload_id: 'w', tail: 0 } };
const never = new AbortController().signal;
const ping = { method: 'ping' } as const;
const options = { timeoutMs: 5000, signal: never };

let world: GatewayWorld;
let holder: TestReplica;
let other: TestReplica;
let backend: FakeBackend;
let server: { id: string; token: string };
/** Connections of {@link opened}. */
const silent: WebSocket[] = [];

beforeEach(async () => {
  world = await GatewayWorld.start();
  holder = await world.replica();
  other = await world.replica();
  backend = new FakeBackend();
  server = await world.server();
  await world.agent(holder, server, backend);
  await world.connected(holder, server.id);
  await world.connected(other, server.id);
  await eventually(other.mirror, () => other.mirror.key(keys.replica(holder.id)));
});

afterEach(async () => {
  for (const socket of silent.splice(0)) socket.terminate();
  await world[Symbol.asyncDispose]();
});

function chunk(n: number, size = 10): LogChunk {
  const line = {
    seq: n,
    timestamp: '2030-01-01T00:00:00.000Z',
    stream: 'stdout',
    level: 'info',
    message: 'x'.repeat(size),
    instance_id: 'i',
  } as const;
  return { lines: [line] };
}

async function collect(stream: AsyncIterable<Uint8Array>): Promise<Buffer> {
  const parts: Uint8Array[] = [];
  for await (const part of stream) parts.push(part);
  return Buffer.concat(parts);
}

describe.each(['held here', 'held by another replica'])('an agent that is %s', (where) => {
  const replica = (): TestReplica => (where === 'held here' ? holder : other);

  it('answers calls', async () => {
    backend.onCall = (asked) => Promise.resolve({ asked: asked.method });
    await expect(replica().gateway.call(tenant, server.id, ping, options)).resolves.toEqual({ asked: 'ping' });
  });

  it('fails calls with its own words', async () => {
    backend.onCall = () => Promise.reject(new CallError('branch_not_found', 'There is no branch main'));
    const call = replica().gateway.call(tenant, server.id, ping, options);
    await expect(call).rejects.toBeInstanceOf(CallFailed);
    // what those who know the protocol alone look for
    await expect(call).rejects.toBeInstanceOf(CallError);
    await expect(call).rejects.toMatchObject({ code: 'branch_not_found', message: 'There is no branch main' });
  });

  it('fails calls at their deadline', async () => {
    backend.onCall = () => new Promise(() => undefined);
    const call = replica().gateway.call(tenant, server.id, ping, { timeoutMs: 50, signal: never });
    await expect(call).rejects.toMatchObject({ code: 'timeout' });
  });

  it('hears of a caller that gave up', async () => {
    const aborted = Promise.withResolvers<void>();
    const asked = Promise.withResolvers<void>();
    backend.onCall = (_, signal) => {
      asked.resolve();
      signal.addEventListener('abort', () => aborted.resolve());
      return new Promise(() => undefined);
    };
    const stop = new AbortController();
    const call = replica().gateway.call(tenant, server.id, ping, { timeoutMs: 200, signal: stop.signal });
    await asked.promise;
    stop.abort(new Error('enough'));
    await expect(call).rejects.toThrow('enough');
    await aborted.promise;
  });

  it('streams lines in order to the end', async () => {
    backend.onStream = async function* () {
      for (let n = 1; n <= 2000; n++) yield encodeLogChunk(chunk(n, 300));
    };
    const seqs: number[] = [];
    for await (const { lines } of replica().gateway.stream(tenant, server.id, params, { signal: never }))
      seqs.push(...lines.map((line) => line.seq));
    expect(seqs).toEqual(Array.from({ length: 2000 }, (_, n) => n + 1));
  });

  it('carries bytes both ways at once, and each direction ends by itself', async () => {
    const input = randomBytes(3_000_000);
    const output = randomBytes(2_000_000);
    const arrived = Promise.withResolvers<Buffer>();
    const closing = Promise.withResolvers<void>();
    backend.onStream = (_, _signal, incoming) => {
      collect(incoming).then(arrived.resolve, arrived.reject);
      return Readable.from([output]);
    };
    async function* outgoing(): AsyncGenerator<Uint8Array> {
      yield input.subarray(0, 2_500_000);
      await closing.promise;
      yield input.subarray(2_500_000);
    }
    const read = await collect(replica().gateway.duplex(tenant, server.id, params, outgoing(), { signal: never }));
    expect(read.equals(output)).toBe(true);
    closing.resolve();
    expect((await arrived.promise).equals(input)).toBe(true);
  });

  it.each<TerminalParams>([
    { kind: 'exec', assignment: 'an-instance', shell: '/bin/zsh', cols: 91, rows: 31 },
    { kind: 'shell', shell: '/bin/zsh', cols: 91, rows: 31 },
  ])('leads to the place of a terminal: %o', async (place) => {
    backend.onStream = (asked) => Readable.from([Buffer.from(JSON.stringify(asked))]);
    const output = replica().gateway.duplex(tenant, server.id, place, Readable.from([]), { signal: never });
    expect(JSON.parse((await collect(output)).toString())).toEqual(place);
  });

  it('answers after its input has ended', async () => {
    backend.onStream = async function* (_, _signal, incoming) {
      yield Buffer.from((await collect(incoming)).toString().toUpperCase());
    };
    const answer = replica().gateway.duplex(tenant, server.id, params, Readable.from([Buffer.from('words')]), {
      signal: never,
    });
    expect((await collect(answer)).toString()).toBe('WORDS');
  });

  it('takes no more input than its reader reads', async () => {
    let asked = 0;
    const left = Promise.withResolvers<void>();
    backend.onStream = async function* (_, signal) {
      yield Buffer.from('deaf');
      await new Promise((resolve) => signal.addEventListener('abort', resolve, { once: true }));
    };
    async function* outgoing(): AsyncGenerator<Uint8Array> {
      try {
        for (;;) {
          asked++;
          yield new Uint8Array(10_000);
        }
      } finally {
        left.resolve();
      }
    }
    const reader = replica()
      .gateway.duplex(tenant, server.id, params, outgoing(), { signal: never })
      [Symbol.asyncIterator]();
    await reader.next();
    let before = -1;
    await until('it stands still', async () => before === (before = asked), { everyMs: 100 });
    expect(asked * 10_000).toBeLessThan(3 * 256 * 1024);
    await reader.return?.();
    await left.promise;
  });

  it('brings the failure of a source to the agent, and its refusal of more input to the source', async () => {
    const code = Promise.withResolvers<unknown>();
    backend.onStream = async function* (_, _signal, incoming) {
      await collect(incoming).catch((error: unknown) => code.resolve(error));
      yield Buffer.from('answer');
    };
    async function* broken(): AsyncGenerator<Uint8Array> {
      yield Buffer.from('half');
      throw new CallError('upload_broken', 'The upload broke off');
    }
    const { gateway } = replica();
    await expect(collect(gateway.duplex(tenant, server.id, params, broken(), { signal: never }))).rejects.toMatchObject(
      {
        code: 'upload_broken',
      },
    );
    expect(await code.promise).toMatchObject({ code: 'upload_broken' });

    const left = Promise.withResolvers<void>();
    const waiting: AsyncIterableIterator<Uint8Array> = {
      next: () => new Promise(() => undefined),
      async return() {
        left.resolve();
        return { done: true, value: undefined };
      },
      [Symbol.asyncIterator]() {
        return this;
      },
    };
    backend.onStream = async function* (_, _signal, incoming) {
      await incoming[Symbol.asyncIterator]().return?.();
      await left.promise;
      yield Buffer.from('went on');
    };
    const answer = await collect(gateway.duplex(tenant, server.id, params, waiting, { signal: never }));
    expect(answer.toString()).toBe('went on');
  });

  it('ends both directions as away when it goes', async () => {
    const seen = Promise.withResolvers<unknown>();
    const left = Promise.withResolvers<void>();
    backend.onStream = async function* (_, signal, incoming) {
      collect(incoming).catch(seen.resolve);
      yield Buffer.from('open');
      await new Promise((resolve) => signal.addEventListener('abort', resolve, { once: true }));
    };
    async function* outgoing(): AsyncGenerator<Uint8Array> {
      try {
        for (;;) yield new Uint8Array(10);
      } finally {
        left.resolve();
      }
    }
    const reader = replica()
      .gateway.duplex(tenant, server.id, params, outgoing(), { signal: never })
      [Symbol.asyncIterator]();
    await reader.next();
    const outcome = expect(reader.next()).rejects.toBeInstanceOf(AgentAway);
    await world.delete('server', server.id);
    const unit = world.repo.begin();
    unit.release((await world.repo.get('server', server.id))!, 'server');
    await unit.commit();
    await outcome;
    expect(await seen.promise).toMatchObject({ code: 'away' });
    await left.promise;
  });

  it('is not pulled on for a reader that does not read', async () => {
    let pulled = 0;
    const ended = Promise.withResolvers<void>();
    backend.onStream = async function* (_, signal) {
      try {
        while (!signal.aborted) {
          pulled++;
          yield encodeLogChunk(chunk(pulled, 10_000));
        }
      } finally {
        ended.resolve();
      }
    };
    const reader = replica().gateway.stream(tenant, server.id, params, { signal: never })[Symbol.asyncIterator]();
    await reader.next();
    let before = -1;
    await until('it stands still', async () => before === (before = pulled), { everyMs: 100 });
    expect(pulled * 10_000).toBeLessThan(3 * 256 * 1024);
    for (let n = 0; n < 100; n++) expect((await reader.next()).done).toBe(false);
    await reader.return?.();
    await ended.promise;
  });

  it('fails streams with the words of the agent', async () => {
    backend.onStream = async function* () {
      yield encodeLogChunk(chunk(1));
      throw new CallError('gone', 'The workload has no logs');
    };
    const read = async (): Promise<void> => {
      for await (const _ of replica().gateway.stream(tenant, server.id, params, { signal: never }));
    };
    await expect(read()).rejects.toMatchObject({ name: 'CallFailed', code: 'gone' });
  });

  it('ends streams as away when it goes', async () => {
    backend.onStream = async function* (_, signal) {
      yield encodeLogChunk(chunk(1));
      await new Promise((resolve) => signal.addEventListener('abort', resolve, { once: true }));
    };
    const reader = replica().gateway.stream(tenant, server.id, params, { signal: never })[Symbol.asyncIterator]();
    await reader.next();
    const next = reader.next();
    const outcome = expect(next).rejects.toBeInstanceOf(AgentAway);
    await world.delete('server', server.id);
    const unit = world.repo.begin();
    unit.release((await world.repo.get('server', server.id))!, 'server');
    await unit.commit();
    await outcome;
  });

  it('stops the source when the signal of the reader aborts', async () => {
    const ended = Promise.withResolvers<void>();
    backend.onStream = async function* (_, signal) {
      try {
        yield encodeLogChunk(chunk(1));
        await new Promise((resolve) => signal.addEventListener('abort', resolve, { once: true }));
      } finally {
        ended.resolve();
      }
    };
    const stop = new AbortController();
    const reader = replica().gateway.stream(tenant, server.id, params, { signal: stop.signal })[Symbol.asyncIterator]();
    await reader.next();
    const outcome = expect(reader.next()).rejects.toThrow('enough');
    stop.abort(new Error('enough'));
    await outcome;
    await ended.promise;
  });
});

describe('an agent that is nowhere', () => {
  it('is away at once', async () => {
    const absent = await world.server();
    const call = other.gateway.call(tenant, absent.id, ping, options);
    await expect(call).rejects.toBeInstanceOf(AgentAway);
    await expect(call).rejects.toBeInstanceOf(CallError);
    await expect(call).rejects.toMatchObject({ code: 'away' });
    const reader = other.gateway.stream(tenant, absent.id, params, { signal: never })[Symbol.asyncIterator]();
    await expect(reader.next()).rejects.toBeInstanceOf(AgentAway);
  });

  it('is away if the replica that held it is gone without a word', async () => {
    const key = keys.agent(tenant, server.id);
    const live = JSON.parse((await world.store.get(key))!.value) as object;
    const absent = await world.server();
    const value = JSON.stringify({ ...live, replica: 'dead' });
    await world.store.txn({
      if: [],
      then: [
        { put: keys.agent(tenant, absent.id), value },
        { put: keys.replica('dead'), value: JSON.stringify({ url: 'http://127.0.0.1:1', version: '0' }) },
      ],
    });
    await eventually(other.mirror, () => other.mirror.tenant(tenant).agent(absent.id));
    await expect(other.gateway.call(tenant, absent.id, ping, options)).rejects.toBeInstanceOf(AgentAway);
  });

  it('is away if the directory names a replica that does not hold it, after some looks', async () => {
    const absent = await world.server();
    const value = JSON.stringify({ replica: holder.id, session: 's', machineId: 'm' });
    await world.store.txn({ if: [], then: [{ put: keys.agent(tenant, absent.id), value }] });
    await eventually(other.mirror, () => other.mirror.tenant(tenant).agent(absent.id));
    await expect(other.gateway.call(tenant, absent.id, ping, options)).rejects.toBeInstanceOf(AgentAway);
  });

  it('is found again after it moved', async () => {
    backend.onCall = () => Promise.resolve('here');
    await world.agent(other, { id: server.id }, backend, { bootId: 'another' });
    await eventually(holder.mirror, () => holder.mirror.tenant(tenant).agent(server.id)?.replica === other.id);
    await expect(holder.gateway.call(tenant, server.id, ping, options)).resolves.toBe('here');
  });
});

describe('the relay', () => {
  it('serves no replica without the key of the cluster', async () => {
    const target = {
      url: holder.url,
      clusterKey: randomBytes(32),
      clock: systemClock,
      tenant,
      server: server.id,
    };
    let called = false;
    backend.onCall = () => {
      called = true;
      return Promise.resolve({});
    };
    await expect(relayCall(target, ping, 1000, never)).rejects.toMatchObject({ code: 'away' });
    expect(called).toBe(false);
  });

  it('keeps no connection after its call or stream', async () => {
    const before = await holder.connections();
    backend.onStream = async function* () {
      yield encodeLogChunk(chunk(1));
    };
    for (let n = 0; n < 3; n++) {
      await other.gateway.call(tenant, server.id, ping, options);
      for await (const _ of other.gateway.stream(tenant, server.id, params, { signal: never }));
      await collect(other.gateway.duplex(tenant, server.id, params, Readable.from([]), { signal: never }));
    }
    await until('all are closed', async () => (await holder.connections()) <= before);
    expect(await holder.connections()).toBe(before);
  });

  it('takes no request twice: each connection has its own challenge', async () => {
    const open = (): Promise<{ socket: WebSocket; nonce: string }> =>
      new Promise((resolve) => {
        const socket = new WebSocket(`${holder.url.replace('http', 'ws')}/internal/v1/relay`, 'setpoint-relay.v1');
        socket.once('message', (data) =>
          resolve({ socket, nonce: (JSON.parse((data as Buffer).toString()) as { nonce: string }).nonce }),
        );
      });
    const [one, two] = [await open(), await open()];
    expect(one.nonce).not.toBe(two.nonce);
    one.socket.terminate();
    two.socket.terminate();
  });

  it.each([
    [{ kind: 'stream', params: { kind: 'tunnel', port: 5432 }, credit: 1024 }, 'reset', 'kind tunnel'],
    [{ kind: 'stream', params: { kind: 'exec' }, credit: 1024, duplex: true }, 'reset', 'kind exec'],
    [{ kind: 'call', params: { method: 'volumes.list' }, timeout_ms: 1000 }, 'result', 'method volumes.list'],
    [{ kind: 'call', params: { method: 'git.head', ref: 'main' }, timeout_ms: 1000 }, 'result', 'method git.head'],
  ])('answers a replica of a later release that asks for %j with what to do', async (what, type, name) => {
    const answer = await within('it answers', askedByAnother({ tenant, server: server.id, what }));
    const code = 'unsupported';
    const message = `The replica that holds the agent is of an earlier release and cannot pass on ${name}: upgrade all replicas`;
    expect(answer).toEqual(type === 'reset' ? { type, code, message } : { type, error: { code, message } });
  });

  it('serves other replicas while connections of strangers say nothing, of which it takes some of each address', async () => {
    const statuses = await Promise.all(Array.from({ length: limits.relay.connections }, () => opened()));
    expect(statuses.filter((status) => status === 101)).toHaveLength(limits.relay.strangers.placesEach);
    backend.onCall = () => Promise.resolve('here');
    await expect(other.gateway.call(tenant, server.id, ping, options)).resolves.toBe('here');
  });

  it('keeps a place for what shows a good pass of the cluster for this replica', async () => {
    const key = await clusterKey(world.store, world.keyring, world.keyring);
    await Promise.all(Array.from({ length: limits.relay.strangers.placesEach }, () => opened()));
    const now = new Date();
    const passes = [
      relayPass(key, holder.url, now),
      relayPass(key, other.url, now),
      relayPass(randomBytes(32), holder.url, now),
      relayPass(key, holder.url, new Date(now.getTime() - 6 * 60_000)),
      'nonsense',
    ];
    expect(await Promise.all(passes.map((pass) => opened({ [relayPassHeader]: pass })))).toEqual([
      101, 503, 503, 503, 503,
    ]);
  });

  it('gives the place of a stranger back once it is proved, as a replica of an earlier release does', async () => {
    const asked: Promise<unknown>[] = [];
    backend.onCall = () => new Promise(() => undefined);
    const what = { kind: 'call', params: ping, timeout_ms: 60_000 };
    for (let n = 0; n < limits.relay.strangers.placesEach; n++)
      asked.push(askedByAnother({ tenant, server: server.id, what }));
    await until('a place is free', async () => (await opened()) === 101);
    await holder[Symbol.asyncDispose]();
    await Promise.all(asked);
  });

  it('closes a connection whose request is of no form that it knows', async () => {
    expect(await askedByAnother({ tenant, server: server.id, what: { kind: 'levitate' } })).toBe(1002);
  });

  it('closes a connection that says something else', async () => {
    const socket = new WebSocket(`${holder.url.replace('http', 'ws')}/internal/v1/relay`, 'setpoint-relay.v1');
    const closed = new Promise<number>((resolve) => socket.on('close', resolve));
    socket.on('open', () => socket.send('{"type":"open"}'));
    expect(await within('the connection is closed', closed)).toBe(1002);
  });
});

/** Opens a connection that says nothing; answers 101, or the status of the refusal. */
function opened(headers: Record<string, string> = {}): Promise<number> {
  const url = `${holder.url.replace('http', 'ws')}/internal/v1/relay`;
  const socket = new WebSocket(url, relaySubprotocol, { headers });
  silent.push(socket);
  return new Promise((resolve) => {
    socket.on('open', () => resolve(101));
    socket.on('error', () => undefined);
    socket.on('unexpected-response', (_, response) => resolve(response.statusCode ?? 0));
  });
}

/** Sends a request as a replica of another release may. Resolves with the answer, or the code of a close without one. */
async function askedByAnother(what: object): Promise<unknown> {
  const key = await clusterKey(world.store, world.keyring, world.keyring);
  const socket = new WebSocket(`${holder.url.replace('http', 'ws')}/internal/v1/relay`, 'setpoint-relay.v1');
  try {
    return await new Promise((resolve) => {
      socket.on('error', () => undefined); // the close follows
      socket.on('close', resolve);
      socket.on('message', (data: Buffer) => {
        const message = z.looseObject({ type: z.string() }).parse(JSON.parse(data.toString()));
        if (message.type !== 'challenge') return resolve(message);
        const request = JSON.stringify(what);
        const proof = relayProof(key, String(message['nonce']), request);
        socket.send(JSON.stringify({ type: 'open', request, proof }));
      });
    });
  } finally {
    socket.terminate();
  }
}

describe('a replica that stops', () => {
  it('sends its agents away in order, to come back spread, and frees their servers', async () => {
    const away = other.mirror.tenant(tenant);
    const { id, token } = await world.server();
    const second = rawAgent(holder.url, { server: id, key: agentKey(), token });
    expect(await second.outcome).toBe('welcome');
    await holder[Symbol.asyncDispose]();
    expect(await second.ended).toEqual({
      kind: 'goodbye',
      reason: 'Control plane stops',
      retryAfterMs: limits.drain.minMs,
    });
    await eventually(other.mirror, () => away.agent(server.id) === undefined);
    await eventually(other.mirror, () => other.mirror.key(keys.replica(holder.id)) === undefined);
    expect(await world.store.get(keys.agent(tenant, server.id))).toBeUndefined();
    expect(await holder.connections()).toBe(0);
  });
});

describe('the load of a server', () => {
  it('is sent with each beat to its listeners', async () => {
    const reported = Promise.withResolvers<number>();
    const stop = holder.gateway.onLoad(tenant, server.id, (load) => reported.resolve(load.cores));
    expect(await within('a load is sent', reported.promise)).toBe(2);
    expect(holder.gateway.loadOf(tenant, server.id)).toMatchObject({ cores: 2 });
    stop();
  });
});
