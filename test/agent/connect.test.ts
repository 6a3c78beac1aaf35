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
import { hashJoinToken, makeJoinToken, parseJoinToken } from '../../agent-protocol/join-token.ts';
import { isProof, proofBytes } from '../../agent-protocol/proof.ts';
import { connect, delay } from '../../agent/connect.ts';
import { openIdentity } from '../../agent/identity.ts';
import { readMachine } from '../../agent/machine.ts';
import { FakeBackend } from '../harness/fake-backend.ts';
import { FakeClock, settle } from '../harness/fake-clock.ts';
import { until } from '../harness/until.ts';

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
    ['a sixth failure', lost, 6, [0, 32_000]],
    ['very many failures', lost, 1000, [0, 60_000]],
    ['a long connection', lost, 0, [0, 1000]],
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
  it('is tried again and again, one replica after the other, until it is told to stop, and no attempt is left over', async () => {
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
        identity: await openIdentity(folder, makeJoinToken(server, randomBytes(32))),
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

describe('the identity of an agent', () => {
  it('is made once, and kept with its token until the control plane knows it', async () => {
    const server = randomUUID();
    const token = makeJoinToken(server, randomBytes(32));
    const first = await openIdentity(folder, token);
    expect(first).toMatchObject({ serverId: server, joinToken: token });
    const again = await openIdentity(folder);
    expect([again.publicKey, again.joinToken]).toEqual([first.publicKey, token]);
    await again.joined();
    expect(await openIdentity(folder)).toMatchObject({ publicKey: first.publicKey, joinToken: undefined });
    const proof = again.sign(proofBytes(server, 'nonce'));
    expect(isProof(first.publicKey, server, 'nonce', proof)).toBe(true);
    expect(isProof(first.publicKey, server, 'other', proof)).toBe(false);
    expect(isProof(first.publicKey, randomUUID(), 'nonce', proof)).toBe(false);
    expect(isProof('nonsense', server, 'nonce', proof)).toBe(false);
  });

  it('is readable by its owner only', async () => {
    await openIdentity(folder, makeJoinToken(randomUUID(), randomBytes(32)));
    expect((await stat(join(folder, 'identity.json'))).mode & 0o777).toBe(0o600);
  });

  it('takes a new token for the same server and keeps its key', async () => {
    const server = randomUUID();
    const first = await openIdentity(folder, makeJoinToken(server, randomBytes(32)));
    await first.joined();
    const token = makeJoinToken(server, randomBytes(32));
    expect(await openIdentity(folder, token)).toMatchObject({ publicKey: first.publicKey, joinToken: token });
  });

  it('is never replaced by one of another server, nor made of nothing', async () => {
    await expect(openIdentity(folder)).rejects.toThrow('needs a join token');
    await expect(openIdentity(folder, 'sj_nonsense')).rejects.toThrow('must have the form');
    await openIdentity(folder, makeJoinToken(randomUUID(), randomBytes(32)));
    const before = await readFile(join(folder, 'identity.json'), 'utf8');
    await expect(openIdentity(folder, makeJoinToken(randomUUID(), randomBytes(32)))).rejects.toThrow(
      'must be for the server',
    );
    expect(await readFile(join(folder, 'identity.json'), 'utf8')).toBe(before);
  });

  it('that is damaged is said to be so, and not replaced', async () => {
    await writeFile(join(folder, 'identity.json'), '{"v":1}');
    await expect(openIdentity(folder, makeJoinToken(randomUUID(), randomBytes(32)))).rejects.toThrow('damaged');
  });
});

describe('a join token', () => {
  it('names its server, and what is kept of it does not tell it', () => {
    const server = randomUUID();
    const token = makeJoinToken(server, randomBytes(32));
    expect(token).toMatch(/^sj_[0-9a-f]{32}_[A-Za-z0-9_-]{43}$/);
    expect(parseJoinToken(token)).toEqual({ serverId: server });
    expect(hashJoinToken(token)).toMatch(/^[0-9a-f]{64}$/);
  });

  it.each(['', 'sj_', 'sp_abc', `sj_${'g'.repeat(32)}_${'a'.repeat(43)}`, `sj_${'a'.repeat(32)}_short`])(
    'must have its form: %s',
    (text) => {
      expect(parseJoinToken(text)).toBeUndefined();
    },
  );

  it('is not made of less randomness', () => {
    expect(() => makeJoinToken(randomUUID(), randomBytes(16))).toThrow(RangeError);
  });
});
