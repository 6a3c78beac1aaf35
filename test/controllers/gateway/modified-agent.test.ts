import { randomUUID, sign } from 'node:crypto';
import { once } from 'node:events';
import type { IncomingMessage } from 'node:http';
import type { Duplex } from 'node:stream';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { WebSocket } from 'ws';
import { z } from 'zod';
import type { WireReport } from '../../../agent-protocol/assignment.ts';
import { encodeData } from '../../../agent-protocol/data-frame.ts';
import { subprotocol } from '../../../agent-protocol/messages.ts';
import { proofBytes } from '../../../agent-protocol/proof.ts';
import { bounds, timing } from '../../../agent-protocol/timing.ts';
import { ByteBudget } from '../../../controllers/gateway/byte-budget.ts';
import { limits } from '../../../controllers/gateway/limits.ts';
import { eventually } from '../../harness/eventually.ts';
import { FakeBackend, running } from '../../harness/fake-backend.ts';
import { FakeClock, settle } from '../../harness/fake-clock.ts';
import { GatewayWorld, tenant } from '../../harness/gateway-world.ts';
import type { TestReplica } from '../../harness/gateway-world.ts';
import { agentKey } from '../../harness/raw-agent.ts';
import type { AgentKey } from '../../harness/raw-agent.ts';
import { until } from '../../harness/until.ts';
import { within } from '../../harness/within.ts';

/**
 * What an agent can do that was modified: it has the key of its server, and keeps to no rule of the protocol. Each test
 * has another agent beside it, which must notice nothing.
 */

const Message = z.looseObject({ type: z.string() });
type Message = z.infer<typeof Message>;
const load = new FakeBackend().load();

let world: GatewayWorld;
let replica: TestReplica;
let opened: WebSocket[];

beforeEach(async () => {
  opened = [];
  world = await GatewayWorld.start();
  replica = await world.replica();
});

afterEach(async () => {
  for (const socket of opened) socket.terminate();
  await world[Symbol.asyncDispose]();
});

/** A connection of which the test sends every frame. */
class Connection {
  readonly socket: WebSocket;
  /** The TCP connection below. */
  readonly tcp: Promise<Duplex>;
  /** Code and reason of the close. */
  readonly closed: Promise<string>;
  /** What was sent, in order. */
  readonly sent: string[] = [];
  readonly #heard: Message[] = [];
  readonly #listeners = new Set<() => void>();

  constructor(url: string) {
    this.socket = new WebSocket(`${url.replace('http', 'ws')}/${tenant}/agent/v1/connect`, subprotocol);
    opened.push(this.socket);
    this.tcp = once(this.socket, 'upgrade').then(([answer]) => (answer as IncomingMessage).socket); // so ws names it
    this.closed = once(this.socket, 'close').then(([code, reason]) => `${String(code)} ${String(reason)}`);
    this.socket.on('error', () => undefined);
    this.socket.on('message', (data: Buffer, isBinary) => {
      if (!isBinary) this.#heard.push(Message.parse(JSON.parse(data.toString())));
      for (const listener of this.#listeners) listener();
    });
  }

  send(message: object | string): void {
    const text = typeof message === 'string' ? message : JSON.stringify(message);
    this.sent.push(text);
    this.socket.send(text);
  }

  /** The first message that fits, or how the connection ended. */
  async hears(fits: (message: Message) => boolean): Promise<Message> {
    const found = Promise.withResolvers<Message>();
    const look = (): void => {
      const message = this.#heard.find(fits);
      if (message !== undefined) found.resolve(message);
    };
    this.#listeners.add(look);
    look();
    const ended = this.closed.then((why): Message => ({ type: 'closed', why }));
    return within('a message arrives', Promise.race([found.promise, ended]));
  }

  /** Says hello. Resolves with the answer: a challenge or a refusal. */
  async greet(server: string, key: AgentKey, more: object = {}): Promise<Message> {
    if (this.socket.readyState !== WebSocket.OPEN) await once(this.socket, 'open');
    this.send({
      type: 'hello',
      protocols: [1],
      agent_version: '1.0.0',
      server_id: server,
      public_key: key.publicKey,
      boot_id: 'boot',
      machine_id: 'machine',
      runtime: 'mock',
      runtime_version: '1',
      capabilities: [],
      store: null,
      ...more,
    });
    return this.hears(({ type }) => type === 'challenge' || type === 'refuse' || type === 'closed');
  }

  /** Answers the challenge. Resolves with the welcome or the refusal. */
  async prove(signature: string): Promise<Message> {
    this.send({ type: 'proof', signature });
    return this.hears(({ type }) => type === 'welcome' || type === 'refuse' || type === 'closed');
  }

  /** Sends a report; resolves with what was rejected of it. */
  async report(seq: number, items: readonly unknown[]): Promise<unknown> {
    this.send({ type: 'report', seq, full: false, items });
    const answer = await this.hears((it) => (it.type === 'report_ack' && it['seq'] === seq) || it.type === 'closed');
    return answer['rejected'] ?? answer;
  }

  /** Resolves when all that was sent before was taken. */
  async isHeard(n = 4242): Promise<Message> {
    this.send({ type: 'beat', n, load });
    return this.hears((it) => (it.type === 'beat_ack' && it['n'] === n) || it.type === 'closed');
  }
}

function signed(server: string, challenge: Message, key: AgentKey): string {
  return sign(null, proofBytes(server, String(challenge['nonce'])), key.privateKey).toString('base64url');
}

interface Joined {
  connection: Connection;
  server: { id: string; token: string };
  key: AgentKey;
}

async function join(options: { at?: TestReplica } = {}): Promise<Joined> {
  const server = await world.server();
  const key = agentKey();
  const connection = new Connection((options.at ?? replica).url);
  const challenge = await connection.greet(server.id, key, { join_token: server.token });
  expect(await connection.prove(signed(server.id, challenge, key))).toMatchObject({ type: 'welcome' });
  connection.send({ type: 'report', seq: 1, full: true, items: [] });
  return { connection, server, key };
}

/** An agent beside the modified one; answers a check that it has its session and answers as before. */
async function bystander(): Promise<() => Promise<void>> {
  const server = await world.server();
  await world.agent(replica, server, new FakeBackend());
  await world.connected(replica, server.id);
  const epoch = replica.mirror.tenant(tenant).agent(server.id)?.epoch;
  return async () => {
    const options = { timeoutMs: 5000, signal: AbortSignal.timeout(10_000) };
    await replica.gateway.call(tenant, server.id, { method: 'ping' }, options);
    expect(replica.mirror.tenant(tenant).agent(server.id)?.epoch).toBe(epoch);
  };
}

const isAway = (server: string): Promise<unknown> =>
  eventually(replica.mirror, () => replica.mirror.tenant(tenant).agent(server) === undefined);

const observedOf = async (id: string) => (await world.repo.get('assignment', id))?.observed;

const garbage: readonly [string, Uint8Array | string, string][] = [
  ['text that is no JSON', 'not json', '1002 Text frame is no JSON'],
  ['JSON that is no object', 'null', '1002 Message has no type'],
  ['a message whose type is a number', '{"type":7}', '1002 Message has no type'],
  ['another hello', '{"type":"hello"}', '1002 hello.'],
  ['a proof without a signature', '{"type":"proof"}', '1002 proof.signature'],
  ['a report without items', '{"type":"report","seq":1,"full":true}', '1002 report.items'],
  ['an endless nest of lists', `{"type":"beat","n":${'['.repeat(50_000)}`, '1002 Text frame is no JSON'],
  ['bytes without a header', new Uint8Array(3), '1002 Binary frame is too short or too long'],
  ['more bytes than a frame may have', new Uint8Array(40_000), '1002 Binary frame is too short or too long'],
  ['more than a message may have', 'x'.repeat(1024 * 1024 + 1), '1009 '],
];

describe.each(['after its hello', 'after its welcome'])('an agent that sends garbage %s', (when) => {
  it.each(garbage)('loses its connection, and leaves nothing: %s', async (_what, frame, end) => {
    const isWell = await bystander();
    const server = await world.server();
    const item = await world.assignment(server.id);
    const key = agentKey();
    const connection = new Connection(replica.url);
    const challenge = await connection.greet(server.id, key, { join_token: server.token });
    if (when === 'after its welcome') await connection.prove(signed(server.id, challenge, key));
    connection.socket.send(frame);
    expect(await within('it is closed', connection.closed)).toContain(end);
    await isAway(server.id);
    await until('its connection is gone', async () => (await replica.connections()) === 1);
    expect(await observedOf(item.meta.id)).toBeUndefined();
    await isWell();
  });

  it('loses its connection, and leaves nothing: bytes that are no WebSocket', async () => {
    const isWell = await bystander();
    const server = await world.server();
    const key = agentKey();
    const connection = new Connection(replica.url);
    const challenge = await connection.greet(server.id, key, { join_token: server.token });
    if (when === 'after its welcome') await connection.prove(signed(server.id, challenge, key));
    (await connection.tcp).write(Buffer.alloc(100_000, 0xff));
    await within('it is closed', connection.closed);
    await isAway(server.id);
    await until('its connection is gone', async () => (await replica.connections()) === 1);
    await isWell();
  });
});

describe('a proof', () => {
  it('is good for one challenge: all frames of a session, sent again, open no other one', async () => {
    const { connection: first, server, key } = await join();
    const epoch = replica.mirror.tenant(tenant).agent(server.id)?.epoch;
    for (const drop of [false, true]) {
      const again = new Connection(replica.url);
      await once(again.socket, 'open');
      for (const frame of first.sent) again.send(drop ? frame.replace(/"join_token":"[^"]*",/, '') : frame);
      const answer = await again.hears(({ type }) => ['refuse', 'welcome', 'closed'].includes(type));
      expect(['refuse', 'closed']).toContain(answer.type);
    }
    await first.isHeard();
    expect(replica.mirror.tenant(tenant).agent(server.id)?.epoch).toBe(epoch);
    expect(first.socket.readyState).toBe(WebSocket.OPEN);
    expect((await world.repo.get('server', server.id))?.desired.agent_public_key).toBe(key.publicKey);
  });

  it.each([
    ['empty', () => ''],
    ['no base64', () => '\u0000\u{1f600}'],
    ['of zeros', () => Buffer.alloc(64).toString('base64url')],
    ['over another server', (challenge: Message, key: AgentKey) => signed(randomUUID(), challenge, key)],
    ['by another key', (challenge: Message, _key: AgentKey, server: string) => signed(server, challenge, agentKey())],
  ])('that is %s is refused, and its token stays good', async (_what, proof) => {
    const server = await world.server();
    const key = agentKey();
    const connection = new Connection(replica.url);
    const challenge = await connection.greet(server.id, key, { join_token: server.token });
    expect(await connection.prove(proof(challenge, key, server.id))).toMatchObject({
      type: 'refuse',
      code: 'unauthorized',
    });
    const good = new Connection(replica.url);
    const next = await good.greet(server.id, key, { join_token: server.token });
    expect(await good.prove(signed(server.id, next, key))).toMatchObject({ type: 'welcome' });
  });

  it.each(['', 'x', 'A'.repeat(43), '_'.repeat(64), 'é'.repeat(20)])(
    'for the key %j, which has no private half here, is refused',
    async (publicKey) => {
      const server = await world.server();
      const connection = new Connection(replica.url);
      const key = { ...agentKey(), publicKey };
      const challenge = await connection.greet(server.id, key, { join_token: server.token });
      expect(await connection.prove(signed(server.id, challenge, key))).toMatchObject({ code: 'unauthorized' });
      expect((await world.repo.get('server', server.id))?.desired.agent_public_key).toBeUndefined();
    },
  );
});

describe('reports of a modified agent', () => {
  const item = (it: { meta: { id: string } }, more: object = {}) => ({
    ...running({ id: it.meta.id, generation: 1 }),
    ...more,
  });

  it('of what is not there, is of others, or lies in the future change nothing', async () => {
    const isWell = await bystander();
    const { connection, server } = await join();
    const mine = await world.assignment(server.id);
    const other = await world.assignment((await world.server()).id);
    await replica.mirror.reached(await world.store.revision(), AbortSignal.timeout(5000));
    const strange: [WireReport | object, string][] = [
      [item(mine, { generation: 2 }), 'stale_generation'],
      [item(mine, { generation: Number.MAX_SAFE_INTEGER }), 'stale_generation'],
      [item(mine, { generation: -1 }), 'stale_generation'],
      [item(other), 'not_assigned'],
      [item(other, { gone: true }), 'not_assigned'],
      [item({ meta: { id: '../../d/server' } }), 'not_assigned'],
      [item({ meta: { id: '__proto__' } }), 'not_assigned'],
      [item({ meta: { id: '' } }), 'not_assigned'],
    ];
    const before = await world.store.revision();
    let seq = 10;
    for (const [report, why] of strange)
      expect(await connection.report(seq++, [report]), JSON.stringify(report)).toMatchObject([{ why }]);
    expect(await world.store.revision()).toBe(before);
    expect(await connection.report(seq, [item(mine)])).toEqual([]);
    await isWell();
  });

  it('may be nested without end: nothing of that is kept', async () => {
    const { connection, server } = await join();
    const mine = await world.assignment(server.id);
    await replica.mirror.reached(await world.store.revision(), AbortSignal.timeout(5000));
    const nest = `${'['.repeat(50_000)}${']'.repeat(50_000)}`;
    const known = JSON.stringify(item(mine)).slice(0, -1);
    const text = `${known},"foreign":${nest},"progress":${nest},"result":${nest}}`;
    connection.send(`{"type":"report","seq":10,"full":false,"items":[${text}]}`);
    const answer = await connection.hears((it) => it['seq'] === 10 || it.type === 'closed');
    expect(answer).toMatchObject({ type: 'report_ack', rejected: [] });
    expect(JSON.stringify(await observedOf(mine.meta.id))).not.toContain('[[');
  });

  it('are taken at the pace of the protocol, however fast they come, over all sessions of the server', async () => {
    const clock = new FakeClock('2030-01-01T00:00:00.000Z', () => settle(30));
    await using slow = await GatewayWorld.start({ clock });
    const at = await slow.replica();
    const server = await slow.server({ join_token_expires_at: '2030-01-02T00:00:00.000Z' });
    const mine = await slow.assignment(server.id);
    const key = agentKey();
    let answered = 0;
    /** Sends the next report whenever the one before is answered. */
    const flood = async (more: object): Promise<Connection> => {
      const connection = new Connection(at.url);
      const challenge = await connection.greet(server.id, key, more);
      expect(await connection.prove(signed(server.id, challenge, key))).toMatchObject({ type: 'welcome' });
      let seq = 0;
      const next = (): void =>
        connection.send({ type: 'report', seq: ++seq, full: false, items: [item(mine, { restarts: seq })] });
      connection.socket.on('message', (data: Buffer) => {
        if (!data.includes('"report_ack"')) return;
        answered++;
        next();
      });
      next();
      return connection;
    };
    const perSecond = (2 * 1000) / timing.reportEveryMs;
    const first = await flood({ join_token: server.token });
    await until('some are answered', async () => answered >= perSecond);
    for (let n = 0; n < 3; n++) await first.isHeard(n);
    expect(answered).toBe(perSecond);
    first.socket.terminate();
    const second = await flood({});
    for (let n = 0; n < 3; n++) await second.isHeard(n);
    expect(answered).toBe(perSecond);
    await clock.advance(1000);
    await until('more are answered', async () => answered > perSecond);
    for (let n = 10; n < 13; n++) await second.isHeard(n);
    expect(answered).toBeLessThanOrEqual(2 * perSecond);
  });
});

describe('bytes', () => {
  const { perSecond, burst, messageWeight } = limits.bytes;
  const size = 512 * 1024;
  const atOnce = burst / messageWeight / size;
  const large = JSON.stringify({ type: 'levitate', how: 'x'.repeat(size) });
  const isSlowed = async (at: TestReplica): Promise<boolean> =>
    /setpoint_server_slowed_seconds\{.*\} [0-9.]*[1-9]/.test(await at.registry.metrics());

  it('wait at what one agent may send, over all sessions of its server, and none is lost', async () => {
    const clock = new FakeClock('2030-01-01T00:00:00.000Z', () => settle(30));
    await using slow = await GatewayWorld.start({ clock });
    const at = await slow.replica();
    const server = await slow.server({ join_token_expires_at: '2030-01-02T00:00:00.000Z' });
    const key = agentKey();
    let answered = 0;
    const open = async (more: object): Promise<Connection> => {
      const connection = new Connection(at.url);
      const challenge = await connection.greet(server.id, key, more);
      expect(await connection.prove(signed(server.id, challenge, key))).toMatchObject({ type: 'welcome' });
      connection.socket.on('message', (data: Buffer) => {
        if (data.includes('"unsupported"')) answered += 1;
      });
      return connection;
    };
    const first = await open({ join_token: server.token });
    const tcp = await first.tcp;
    const sent = 2 * atOnce;
    for (let n = 0; n < sent; n += 1) first.socket.send(large);
    await until('the first are taken', async () => answered >= atOnce - 1);
    await settle(100);
    expect(answered).toBeLessThanOrEqual(atOnce + 1);
    expect(tcp.writableLength).toBeGreaterThan(0); // the rest waits on the agent's side
    expect(await isSlowed(at)).toBe(true);
    const each = (1000 * messageWeight * size) / perSecond;
    await clock.advance(each * 4);
    await until('more are taken', async () => answered >= atOnce + 3);
    await settle(100);
    expect(answered).toBeLessThanOrEqual(atOnce + 6);
    for (let ms = 0; answered < sent && ms < 4000; ms += 100) {
      await clock.advance(100);
      await settle(30);
    }
    expect(answered).toBe(sent);
    first.socket.terminate();

    // another session has no budget of its own
    const second = await open({});
    second.socket.send(large);
    second.socket.send(large);
    await settle(100);
    expect(answered).toBeLessThanOrEqual(sent + 1);
    await clock.advance(1000);
    await until('they are taken', async () => answered === sent + 2);
  });

  it('of streams pass as fast as agents were measured to send them', () => {
    const clock = new FakeClock();
    const budget = new ByteBudget(clock);
    const frame = new Uint8Array(20_000);
    const measuredPerSecond = 40_000_000;
    let waited = 0;
    for (let sent = 0; sent < 3 * measuredPerSecond; sent += frame.length) waited += budget.take(frame);
    expect(waited).toBe(0);
  });
});

describe('a flood', () => {
  const ended = /^1008 Too many messages$/;
  const bytes = (stream: number, size: number) => encodeData({ stream, end: false, payload: new Uint8Array(size) });
  const frames: readonly [string, (connection: Connection) => void, RegExp][] = [
    ['messages', ({ socket }) => socket.send('{"type":"applied","revision":1}'), ended],
    ['messages of no known type', ({ socket }) => socket.send('{"type":"levitate"}'), ended],
    ['bytes of streams that nothing reads', ({ socket }) => socket.send(bytes(9, 8)), ended],
    ['empty frames of streams', ({ socket }) => socket.send(bytes(1, 0)), ended],
    ['credit for no stream', ({ socket }) => socket.send('{"type":"stream.credit","stream":9,"bytes":1}'), ended],
    ['questions for the whole set', ({ socket }) => socket.send('{"type":"need_snapshot","why":"x"}'), ended],
    ['pongs', ({ socket }) => socket.pong(), ended],
    // The library cuts off what sends pings faster than the answers leave.
    ['pings', ({ socket }) => socket.ping(), /^1008 Too many messages$|^1006 /],
  ];

  it.each(frames)('of %s ends the session, and others go on', async (_what, send, end) => {
    const isWell = await bystander();
    const { connection, server } = await join();
    for (let n = 0; n < 2 * bounds.messagesPer10s && connection.socket.readyState === WebSocket.OPEN; n++) {
      send(connection);
      if (n % 20 === 0) await settle(1);
    }
    expect(await within('it is closed', connection.closed)).toMatch(end);
    await isAway(server.id);
    await isWell();
  });

  it('that goes on after the close is cut off at once', async () => {
    // No deadline passes in this world.
    await using still = await GatewayWorld.start({ clock: new FakeClock() });
    const at = await still.replica();
    const connection = new Connection(at.url);
    await once(connection.socket, 'open');
    const tcp = await connection.tcp;
    connection.socket.pause(); // reads no close, and answers none
    connection.send('not json');
    const ping = Buffer.from([0x89, 0x80, 0, 0, 0, 0]);
    const cut = async (): Promise<boolean> => {
      tcp.write(Buffer.concat(Array.from({ length: 500 }, () => ping)));
      return (await at.connections()) === 0;
    };
    // The library itself waits for half a minute.
    await until('it is cut off', cut, { timeoutMs: 15_000 });
  });
});

describe('an agent that asks for its whole set again and again', () => {
  it('gets it less and less often, also if it says that it has stored it', async () => {
    const clock = new FakeClock('2030-01-01T00:00:00.000Z', () => settle(30));
    await using slow = await GatewayWorld.start({ clock });
    const at = await slow.replica();
    const server = await slow.server({ join_token_expires_at: '2030-01-02T00:00:00.000Z' });
    const key = agentKey();
    const connection = new Connection(at.url);
    const challenge = await connection.greet(server.id, key, { join_token: server.token });
    let snapshots = 0;
    connection.socket.on('message', (data: Buffer) => {
      if (!data.includes('"snapshot.end"')) return;
      snapshots++;
      connection.send('{"type":"applied","revision":1}');
      connection.send('{"type":"need_snapshot","why":"again"}');
    });
    await connection.prove(signed(server.id, challenge, key));
    await until('the first came', async () => snapshots === 1);
    for (let second = 0; second < 60; second++) {
      await connection.isHeard(second);
      await clock.advance(1000);
    }
    await connection.isHeard(60);
    expect(snapshots).toBeGreaterThanOrEqual(6); // the first, and after 0, 1, 2, 4, 8 and 16 s of waiting
    expect(snapshots).toBeLessThanOrEqual(8);
  });
});
