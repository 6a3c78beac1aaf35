import { mkdtemp, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { randomBytes, randomUUID } from 'node:crypto';
import { pino } from 'pino';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { WebSocketServer } from 'ws';
import type { AgentEnd } from '../../agent-protocol/agent-session.ts';
import { hashControlKey } from '../../agent-protocol/control-proof.ts';
import { hashJoinToken, makeJoinToken, parseJoinToken } from '../../agent-protocol/join-token.ts';
import { isProof, proofBytes } from '../../agent-protocol/proof.ts';
import { connect, delay } from '../../agent/connect.ts';
import { openIdentity } from '../../agent/identity.ts';
import { readMachine } from '../../agent/machine/machine.ts';
import { FakeBackend } from '../harness/fake-backend.ts';
import { FakeClock, settle } from '../harness/fake-clock.ts';
import { until } from '../harness/until.ts';
import { joinToken } from '../harness/join-token.ts';

let folder: string;

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'agent-'));
});

afterEach(() => rm(folder, { recursive: true, force: true }));

describe('the wait before the next attempt', () => {
  const lost: AgentEnd = { kind: 'lost', why: 'x' };
  const refused = (
    code: 'busy' | 'unknown' | 'retired' | 'unauthorized' | 'superseded',
    retryAfterMs: number,
  ): AgentEnd => ({
    kind: 'refused',
    code,
    message: '',
    retryAfterMs,
  });

  it.each([
    ['a first failure', lost, 1, [0, 1000]],
    ['a second failure', lost, 2, [0, 2000]],
    ['a fifth failure', lost, 5, [0, 16_000]],
    ['very many failures', lost, 1000, [0, 20_000]],
    ['a welcome', lost, 0, [0, 1000]],
    ['an impostor', { kind: 'impostor', why: '' }, 2, [0, 2000]],
    ['a goodbye that says when', { kind: 'goodbye', reason: '', retryAfterMs: 8000 }, 1, [0, 8000]],
    ['a goodbye that does not', { kind: 'goodbye', reason: '', retryAfterMs: undefined }, 3, [0, 4000]],
    ['a busy control plane', refused('busy', 7000), 1, [7000, 8000]],
    ['an unknown server', refused('unknown', 300_000), 1, [150_000, 300_000]],
    ['a refused key', refused('unauthorized', 60_000), 1, [30_000, 60_000]],
    ['a refusal that says nothing of when', refused('unauthorized', 0), 1, [15_000, 30_000]],
    ['a retired server', refused('retired', 0), 1, [1_800_000, 3_600_000]],
  ] as const)('after %s is spread over its whole range', (_, end, failures, [low, high]) => {
    expect(delay(end as AgentEnd, failures, () => 0)).toBe(low);
    expect(delay(end as AgentEnd, failures, () => 1)).toBe(high);
  });
});

describe('a connection', () => {
  it('is tried again and again, one replica after the other, until it is asked to stop, and no attempt is left over', async () => {
    const clock = new FakeClock();
    const socket = new WebSocketServer({ port: 0, host: '127.0.0.1' });
    await once(socket, 'listening');
    const { port } = socket.address() as AddressInfo;
    let attempts = 0;
    const paths: (string | undefined)[] = [];
    socket.on('connection', (peer, request) => {
      attempts++;
      paths.push(request.url);
      peer.terminate();
    });
    const stop = new AbortController();
    const server = randomUUID();
    const running = connect(
      {
        urls: [`http://127.0.0.1:${port}/acme/`, `http://127.0.0.1:${port}/replica`],
        identity: await openIdentity(folder, joinToken(server)),
        machine: await readMachine('fallback'),
        agentVersion: '1',
        runtime: () => ({ name: 'mock', version: '1' }),
        backend: new FakeBackend(),
        clock,
        random: () => 1,
        log: pino({ level: 'silent' }),
      },
      stop.signal,
    );
    for (let n = 1; n <= 4; n++) {
      await until(`attempt ${n}`, async () => attempts === n && clock.pending > 0, { everyMs: 5 });
      await settle();
      await clock.advance(1000 * 2 ** (n - 1));
    }
    const [first, second] = ['/acme/agent/v1/connect', '/replica/agent/v1/connect'];
    expect(paths.slice(0, 4)).toEqual([first, second, first, second]);
    stop.abort();
    await running;
    socket.close();
    await once(socket, 'close');
  });
});

/** A control plane of an earlier release that cuts every connection: some at once, the others after the welcome. */
async function brittle(welcomes: (attempt: number) => boolean) {
  const server = new WebSocketServer({ port: 0, host: '127.0.0.1' });
  await once(server, 'listening');
  let attempts = 0;
  server.on('connection', (peer) => {
    const isWelcome = welcomes(++attempts);
    if (!isWelcome) peer.terminate();
    peer.on('message', (data: Buffer) => {
      const { type } = JSON.parse(data.toString()) as { type: string };
      const welcome = { protocol: 1, session: 's', epoch: 1, beat_ms: 5000, lease_ms: 30_000, log_retention_days: 1 };
      if (type === 'hello') peer.send(JSON.stringify({ type: 'challenge', nonce: 'n' }));
      else if (type === 'proof') peer.send(JSON.stringify({ type: 'welcome', ...welcome }));
      else peer.terminate();
    });
  });
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}`,
    attempts: () => attempts,
    async [Symbol.asyncDispose]() {
      server.close();
      await once(server, 'close');
    },
  };
}

it('I-06: a welcome forgets the failures before it, so that many restarts in a row keep no agent away', async () => {
  const clock = new FakeClock();
  await using plane = await brittle((attempt) => attempt > 3);
  const stop = new AbortController();
  let begun = 0;
  const server = randomUUID();
  const earlier = `sj_${server.replaceAll('-', '')}_${randomBytes(32).toString('base64url')}`;
  const running = connect(
    {
      urls: [plane.url],
      identity: await openIdentity(folder, earlier),
      machine: await readMachine('fallback'),
      agentVersion: '1',
      runtime: () => {
        begun++;
        return { name: 'mock', version: '1' };
      },
      backend: new FakeBackend(),
      clock,
      random: () => 1,
      log: pino({ level: 'silent' }),
    },
    stop.signal,
  );
  for (const [n, waitMs] of [1000, 2000, 4000, 1000, 1000, 1000].entries()) {
    await until(`attempt ${n + 1}`, async () => plane.attempts() === n + 1 && clock.pending > 0, { everyMs: 5 });
    await until(`attempt ${n + 1} failed`, async () => clock.pending === 1, { everyMs: 5 });
    await settle();
    await clock.advance(waitMs - 1);
    expect(begun, `retry ${n + 1} waits for ${waitMs} ms`).toBe(n + 1);
    await clock.advance(1);
    expect(begun, `retry ${n + 1} waits for ${waitMs} ms and no longer`).toBe(n + 2);
  }
  await until('it goes on', async () => plane.attempts() === 7);
  stop.abort();
  await running;
});

describe('the identity of an agent', () => {
  it('is made once, and kept with its token until the control plane knows it', async () => {
    const server = randomUUID();
    const token = joinToken(server);
    const first = await openIdentity(folder, token);
    expect(first).toMatchObject({ serverId: server, joinToken: token });
    const again = await openIdentity(folder);
    expect([again.publicKey, again.joinToken]).toEqual([first.publicKey, token]);
    await again.joined(undefined);
    expect(await openIdentity(folder)).toMatchObject({ publicKey: first.publicKey, joinToken: undefined });
    const proof = again.sign(proofBytes(server, 'nonce'));
    expect(isProof(first.publicKey, server, 'nonce', proof)).toBe(true);
    expect(isProof(first.publicKey, server, 'other', proof)).toBe(false);
    expect(isProof(first.publicKey, randomUUID(), 'nonce', proof)).toBe(false);
    expect(isProof('nonsense', server, 'nonce', proof)).toBe(false);
  });

  it('is readable by its owner only', async () => {
    await openIdentity(folder, joinToken(randomUUID()));
    expect((await stat(join(folder, 'identity.json'))).mode & 0o777).toBe(0o600);
  });

  it('takes a new token for the same server and keeps its key', async () => {
    const server = randomUUID();
    const first = await openIdentity(folder, joinToken(server));
    await first.joined(undefined);
    const token = joinToken(server);
    expect(await openIdentity(folder, token)).toMatchObject({ publicKey: first.publicKey, joinToken: token });
  });

  it('knows the control plane by its token, then by what it proved itself with, until another token comes', async () => {
    const server = randomUUID();
    const token = joinToken(server, 'first');
    const identity = await openIdentity(folder, token);
    expect(identity.controlKeyHash).toBe(hashControlKey('first'));
    await identity.joined(hashControlKey('second'));
    expect(identity.controlKeyHash).toBe(hashControlKey('second'));
    expect((await openIdentity(folder)).controlKeyHash).toBe(hashControlKey('second'));
    // the token that was used is still in the file of the service
    expect((await openIdentity(folder, token)).controlKeyHash).toBe(hashControlKey('second'));
    const earlier = `sj_${server.replaceAll('-', '')}_${randomBytes(32).toString('base64url')}`;
    expect((await openIdentity(folder, earlier)).controlKeyHash).toBeUndefined();
    expect((await openIdentity(folder, joinToken(server, 'third'))).controlKeyHash).toBe(hashControlKey('third'));
  });

  it('is never replaced by one of another server, nor made of nothing', async () => {
    await expect(openIdentity(folder)).rejects.toThrow('make a join token');
    await expect(openIdentity(folder, 'sj_nonsense')).rejects.toThrow('must have the form');
    await openIdentity(folder, joinToken(randomUUID()));
    const before = await readFile(join(folder, 'identity.json'), 'utf8');
    await expect(openIdentity(folder, joinToken(randomUUID()))).rejects.toThrow('this agent is that of server');
    expect(await readFile(join(folder, 'identity.json'), 'utf8')).toBe(before);
  });

  it('that is damaged is said to be so, and not replaced', async () => {
    await writeFile(join(folder, 'identity.json'), '{"v":1}');
    await expect(openIdentity(folder, joinToken(randomUUID()))).rejects.toThrow('damaged');
  });
});

describe('a join token', () => {
  it('names its server, and what is kept of it does not reveal it', () => {
    const server = randomUUID();
    const token = joinToken(server);
    expect(token).toMatch(/^sj_[0-9a-f]{32}_[A-Za-z0-9_-]{43}$/);
    expect(parseJoinToken(token)).toMatchObject({ serverId: server });
    expect(hashJoinToken(token)).toMatch(/^[0-9a-f]{64}$/);
  });

  it('says by which key the control plane proves itself, and one of an earlier release says nothing of it', () => {
    const server = randomUUID();
    for (let n = 0; n < 100; n++) {
      expect(parseJoinToken(makeJoinToken(server, randomBytes(16), `key ${n}`))).toEqual({
        serverId: server,
        controlKeyHash: hashControlKey(`key ${n}`),
      });
      const earlier = `sj_${server.replaceAll('-', '')}_${randomBytes(32).toString('base64url')}`;
      expect(parseJoinToken(earlier)).toEqual({ serverId: server });
    }
  });

  it.each(['', 'sj_', 'sp_abc', `sj_${'g'.repeat(32)}_${'a'.repeat(43)}`, `sj_${'a'.repeat(32)}_short`])(
    'must have its form: %s',
    (text) => {
      expect(parseJoinToken(text)).toBeUndefined();
    },
  );

  it('is not made of less randomness', () => {
    expect(() => makeJoinToken(randomUUID(), randomBytes(15), 'key')).toThrow(RangeError);
  });
});
