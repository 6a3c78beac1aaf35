import { connect } from 'node:net';
import { text } from 'node:stream/consumers';
import type { IncomingMessage } from 'node:http';
import { afterEach, describe, expect, it } from 'vitest';
import { createLoginThrottle } from '../../api/auth/login-throttle.ts';
import { createClientAddress } from '../../api/http/client-address.ts';
import { createFreshness } from '../../api/endpoint/freshness.ts';
import { forgetExpiredAnswers } from '../../api/request/idempotency.ts';
import { createInTurn } from '../../api/endpoint/in-turn.ts';
import { createRateLimit } from '../../api/http/rate-limit.ts';
import { systemClock } from '../../time/clock.ts';
import { keys } from '../../store/keys.ts';
import { revision } from '../../store/revision.ts';
import { startApi } from '../harness/api.ts';
import type { ApiWorld } from '../harness/api.ts';
import { FakeClock } from '../harness/fake-clock.ts';
import { openFrames, Refusal } from '../harness/frames.ts';

let world: ApiWorld | undefined;

afterEach(async () => {
  await world?.[Symbol.asyncDispose]();
  expect(world?.faults ?? []).toEqual([]);
  world = undefined;
});

describe('the rate limit', () => {
  it('lets a burst through, then as many as come in, and shows what is left', async () => {
    const clock = new FakeClock();
    const take = createRateLimit({ perMinute: 60, burst: 3 }, clock);
    expect([take('a'), take('a'), take('a')].map((it) => it?.remaining)).toEqual([2, 1, 0]);
    expect(take('a')).toEqual({ limit: 60, remaining: 0, reset: 3, retryAfter: 1 });
    expect(take('b')?.remaining).toBe(2);
    await clock.advance(1000);
    expect(take('a')).toEqual({ limit: 60, remaining: 0, reset: 3 });
    expect(createRateLimit({ perMinute: 0, burst: 1 }, clock)('a')).toBeUndefined();
  });

  it('saves up no more than the burst, however long nobody came', async () => {
    const clock = new FakeClock();
    const take = createRateLimit({ perMinute: 60, burst: 3 }, clock);
    for (let n = 0; n < 4; n += 1) take('a');
    await clock.advance(3_600_000);
    const taken = Array.from({ length: 5 }, () => take('a')?.retryAfter === undefined);
    expect(taken).toEqual([true, true, true, false, false]);
  });

  it('is one for all credentials of a user, and by address for what anybody may ask', async () => {
    world = await startApi({ clock: new FakeClock(), config: { rateLimit: { perMinute: 60, burst: 12 } } });
    const owner = await world.owner();
    const user = await world.user();
    const keys = [];
    for (const name of ['a', 'b', 'c']) {
      const { data } = await user.post('/settings/service-keys', { name });
      keys.push({ 'x-service-key': String(data.key) });
    }
    const stranger = world.client();
    const left = [];
    for (const key of keys)
      left.push(Number((await stranger.get('/projects', key)).headers.get('ratelimit-remaining')));
    expect(left).toEqual([8, 7, 6]);
    for (const _ of left) await user.get('/projects');
    for (const key of [...keys, ...keys]) left.push((await stranger.get('/projects', key)).status);
    expect(left.slice(-3)).toEqual([429, 429, 429]);
    expect((await owner.get('/projects')).status).toBe(200);
    const guesses = [];
    for (let n = 0; n < 14; n += 1)
      guesses.push(
        (await stranger.post('/auth/login', { email: `${n}@example.test`, password: 'wrong' }, keys[n % 3])).status,
      );
    expect(guesses.at(-1)).toBe(429);
  });

  it('is of each caller, shown by headers, and smaller for heavy verbs', async () => {
    world = await startApi({
      config: { rateLimit: { perMinute: 60, burst: 30 }, heavyRateLimit: { perMinute: 60, burst: 5 } },
    });
    const owner = await world.owner();
    const first = await owner.get('/projects');
    expect(first.headers.get('ratelimit-limit')).toBe('60');
    expect(first.headers.get('ratelimit-remaining')).toBe('29');
    for (let n = 0; n < 29; n += 1) await owner.get('/projects');
    const refused = await owner.get('/projects');
    expect(refused.status).toBe(429);
    expect(refused.body.error?.code).toBe('TOO_MANY_REQUESTS');
    expect(refused.headers.get('retry-after')).toBe('1');
    expect(refused.headers.get('ratelimit-remaining')).toBe('0');
    const other = await world.user();
    expect((await other.get('/projects')).status).toBe(200);
    const { project, server } = await world.place(other);
    const body = {
      project_id: project,
      server_id: server,
      name: 'web',
      source_type: 'image',
      image_url: 'example/web',
    };
    const { id } = (await other.post('/applications', body)).data;
    const verbs = [];
    for (let n = 0; n < 7; n += 1) verbs.push((await other.post(`/applications/${id}/deploy`)).status);
    expect(verbs).toEqual([200, 200, 200, 200, 200, 429, 429]);
  });
});

describe('the rate limit of a user', () => {
  it('counts the streams that are opened, as each asks the agent of a server for lines', async () => {
    const clock = new FakeClock();
    world = await startApi({ clock, config: { rateLimit: { perMinute: 60, burst: 12 } } });
    await world.owner();
    const user = await world.user();
    const address = world.url.replace('http', 'ws');
    const headers = { authorization: `Bearer ${user.token ?? ''}` };
    const open = async (): Promise<number> => {
      try {
        await using _ = await openFrames(`${address}/default/ws/notifications`, headers);
        return 101;
      } catch (error) {
        if (!(error instanceof Refusal)) throw error;
        expect(error.body).toMatchObject({ error: { code: 'TOO_MANY_REQUESTS' } });
        expect(error.headers['retry-after']).toBe('1');
        return error.status;
      }
    };
    const answers = [];
    for (let n = 0; n < 13; n += 1) answers.push(await open());
    expect([answers[0], answers.at(-1), (await user.get('/projects')).status]).toEqual([101, 429, 429]);
    await clock.advance(1000);
    expect(await open()).toBe(101);
  });
});

describe('SEC-41: the address of a client', () => {
  const request = (peer: string, forwarded?: string): IncomingMessage =>
    ({ socket: { remoteAddress: peer }, headers: { 'x-forwarded-for': forwarded } }) as unknown as IncomingMessage;

  it('is the peer, whatever it says of others, unless it is a trusted proxy', () => {
    const plain = createClientAddress([]);
    expect(plain(request('::ffff:192.0.2.1', '203.0.113.9'))).toBe('192.0.2.1');
    const behind = createClientAddress(['192.0.2.0/24', '::1']);
    expect(behind(request('192.0.2.1', '198.51.100.7, 203.0.113.9'))).toBe('203.0.113.9');
    expect(behind(request('192.0.2.1', '203.0.113.9, 192.0.2.2'))).toBe('203.0.113.9');
    expect(behind(request('192.0.2.1', 'nonsense'))).toBe('192.0.2.1');
    expect(behind(request('192.0.2.1'))).toBe('192.0.2.1');
    expect(() => createClientAddress(['proxy.example'])).toThrow('Network must be an address');
  });

  it('counts a network of IPv6 as one', () => {
    const addressOf = createClientAddress([]);
    expect(addressOf(request('2001:db8:1:2:3:4:5:6'))).toBe(addressOf(request('2001:db8:1:2::9')));
    expect(addressOf(request('2001:db8:1:3::9'))).not.toBe(addressOf(request('2001:db8:1:2::9')));
  });
});

describe('SEC-41: the throttle of logins', () => {
  const fail = async (): Promise<undefined> => undefined;
  const succeed = async (): Promise<true> => true;

  it('opens again when the failures are old', async () => {
    const clock = new FakeClock();
    const throttle = createLoginThrottle(clock);
    for (let n = 0; n < 10; n += 1) await throttle.attempt('a', 'x', fail);
    await expect(throttle.attempt('a', 'y', succeed)).rejects.toMatchObject({
      code: 'TOO_MANY_REQUESTS',
      retryAfter: 900,
    });
    expect(await throttle.attempt('b', 'x', succeed)).toBe(true);
    await clock.advance(15 * 60_000);
    expect(await throttle.attempt('a', 'y', succeed)).toBe(true);
  });

  it('counts an address over all accounts', async () => {
    const throttle = createLoginThrottle(new FakeClock());
    for (let n = 0; n < 50; n += 1) await throttle.attempt(`account ${n}`, 'x', fail);
    await expect(throttle.attempt('fresh', 'x', succeed)).rejects.toMatchObject({ code: 'TOO_MANY_REQUESTS' });
    expect(await throttle.attempt('fresh', 'y', succeed)).toBe(true);
  });

  it('lets no more than ten guesses through of many at once, and refuses nobody who is right', async () => {
    const throttle = createLoginThrottle(new FakeClock());
    let guesses = 0;
    const guess = async (): Promise<undefined> => {
      guesses += 1;
      await Promise.resolve();
    };
    await Promise.allSettled(Array.from({ length: 40 }, () => throttle.attempt('a', 'x', guess)));
    expect(guesses).toBe(10);
    const right = await Promise.all(Array.from({ length: 40 }, () => throttle.attempt('b', 'y', succeed)));
    expect(right.every(Boolean)).toBe(true);
  });

  it('counts no error as a failure', async () => {
    const throttle = createLoginThrottle(new FakeClock());
    const broken = async (): Promise<never> => Promise.reject(new Error('busy'));
    for (let n = 0; n < 20; n += 1) await expect(throttle.attempt('a', 'x', broken)).rejects.toThrow('busy');
    expect(await throttle.attempt('a', 'x', succeed)).toBe(true);
  });
});

describe('reads', () => {
  it('wait for what was committed before them, and share one look at the store', async () => {
    let reads = 0;
    let applied = revision(1);
    const gate = Promise.withResolvers<void>();
    const fresh = createFreshness(
      {
        async revision() {
          reads += 1;
          await gate.promise;
          return revision(reads);
        },
      },
      {
        get applied() {
          return applied;
        },
        async reached(wanted) {
          applied = wanted;
        },
      },
      systemClock,
    );
    const first = fresh();
    const others = Promise.all([fresh(), fresh(), fresh()]);
    gate.resolve();
    await first;
    await others;
    expect(reads).toBe(2);
    expect(applied).toBe(revision(2));
  });

  it('are 503 within two seconds while the store does not answer', async () => {
    const clock = new FakeClock();
    const fresh = createFreshness(
      { revision: () => new Promise(() => undefined) },
      { applied: revision(1), reached: async () => undefined },
      clock,
    );
    const reading = expect(fresh()).rejects.toMatchObject({ code: 'SERVICE_UNAVAILABLE' });
    await clock.advance(2000);
    await reading;
  });
});

describe('turns', () => {
  it('are taken one after another per key, also after one that failed', async () => {
    const inTurn = createInTurn();
    const order: string[] = [];
    const step = (name: string) => async (waited: boolean) => {
      order.push(`${name} begins ${waited}`);
      await Promise.resolve();
      order.push(`${name} ends`);
      if (name === 'b') throw new Error('b failed');
    };
    const all = [inTurn('k', step('a')), inTurn('k', step('b')), inTurn('k', step('c'))];
    await Promise.allSettled(all);
    expect(order).toEqual(['a begins false', 'a ends', 'b begins true', 'b ends', 'c begins true', 'c ends']);
    await expect(all[1]).rejects.toThrow('b failed');
  });

  it('keep many writers of one object from failing', async () => {
    world = await startApi();
    const owner = await world.owner();
    const { id } = (await owner.post('/projects', { name: 'busy' })).data;
    const answers = await Promise.all(
      Array.from({ length: 40 }, (_, n) => owner.put(`/projects/${id}`, { description: String(n) })),
    );
    expect(answers.every(({ status }) => status === 200)).toBe(true);
  });
});

describe('time', () => {
  it('takes invites that are over out of lists, though nothing was written', async () => {
    const clock = new FakeClock();
    world = await startApi({ clock });
    const owner = await world.owner();
    const user = await world.user('user', 'ada@example.test');
    const invited_by = (await owner.get('/auth/me')).data.id;
    const project_id = (await owner.post('/projects', { name: 'one' })).data.id;
    const expires_at = new Date(clock.now().getTime() + 3_600_000).toISOString();
    const offer = { email: 'ada@example.test', invited_by, expires_at, state: 'pending' } as const;
    await world.create('invite', crypto.randomUUID(), { ...offer, project_id, role: 'viewer' });
    await world.create('invite', crypto.randomUUID(), { ...offer, role: 'user' });
    await world.settled();
    const before = await world.store.revision();
    for (const left of [1, 0]) {
      expect((await owner.get(`/projects/${project_id}/invites`)).data).toHaveLength(left);
      expect((await owner.get('/users/invites')).data).toHaveLength(left);
      expect((await user.get('/me/invites')).data).toHaveLength(left);
      await clock.advance(3_600_000);
    }
    expect(await world.store.revision()).toBe(before);
  });

  it('ends tokens after 24 h, and answers that are kept for retries', async () => {
    const clock = new FakeClock();
    world = await startApi({ clock });
    const owner = await world.owner();
    const headers = { 'idempotency-key': 'k' };
    const first = (await owner.post('/projects', { name: 'one' }, headers)).data;
    const idempotency = { prefix: keys.idempotency('default', '') };
    await forgetExpiredAnswers(world);
    expect((await world.store.list(idempotency)).entries).toHaveLength(1);
    await clock.advance(23.9 * 3_600_000);
    expect((await owner.get('/auth/me')).status).toBe(200);
    expect((await owner.post('/projects', { name: 'one' }, headers)).data.id).toBe(first.id);
    await clock.advance(0.2 * 3_600_000);
    expect((await owner.get('/auth/me')).status).toBe(401);
    const again = world.client(
      (await world.client().post('/auth/login', { email: 'owner@example.test', password: 'correct horse battery' }))
        .data.token,
    );
    const renewed = await again.post('/projects', { name: 'two' }, headers);
    expect(renewed.status).toBe(201);
    expect((await world.store.list(idempotency)).entries).toHaveLength(1);
    await clock.advance(24.1 * 3_600_000);
    await world.settled();
    await forgetExpiredAnswers(world);
    expect((await world.store.list(idempotency)).entries).toEqual([]);
  });
});

describe('the server', () => {
  it('answers what is under way before it closes, and nothing after', async () => {
    world = await startApi();
    const owner = await world.owner();
    const place = await world.place(owner);
    const entered = Promise.withResolvers<void>();
    const answer = Promise.withResolvers<void>();
    world.agents.call = async () => {
      entered.resolve();
      await answer.promise;
      return {};
    };
    const pinging = owner.post(`/servers/${place.server}/ping`);
    await entered.promise;
    const closing = world[Symbol.asyncDispose]();
    answer.resolve();
    expect((await pinging).status).toBe(200);
    await closing;
    await expect(owner.get('/projects')).rejects.toThrow();
  });

  it('holds little of what somebody sends who has proven nothing', async () => {
    world = await startApi();
    const owner = await world.owner();
    const body = { text: 'x'.repeat(20_000) };
    for (const path of ['/auth/logout', '/auth/login', '/auth/send-code', '/auth/verify-code', '/auth/register']) {
      const refused = await world.client().post(path, body);
      expect([refused.status, refused.body.error?.message]).toEqual([400, 'Body must not be longer than 16384 bytes']);
    }
    expect((await world.client().post('/projects', body)).status).toBe(401);
    expect((await owner.post('/projects', body)).body.error?.message).toMatch(/^(name is required|Unknown field)/);
  });

  it('answers in the envelope to what is not even HTTP', async () => {
    world = await startApi();
    const socket = connect(Number(new URL(world.url).port), '127.0.0.1');
    socket.write('NONSENSE\r\n\r\n');
    const answer = await text(socket);
    expect(answer).toMatch(/^HTTP\/1\.1 400 Bad Request\r\n/);
    expect(answer).toContain('x-service-version: 1.2.3');
    expect(answer).toContain('"code":"BAD_REQUEST"');
  });

  it.each([
    ['a request without a host', []],
    [
      'a handshake without a key',
      ['host: x', 'connection: upgrade', 'upgrade: websocket', 'sec-websocket-version: 13'],
    ],
    [
      'a handshake with a wrong key',
      ['host: x', 'connection: upgrade', 'upgrade: websocket', 'sec-websocket-version: 13', 'sec-websocket-key: short'],
    ],
    [
      'a handshake of another version',
      [
        'host: x',
        'connection: upgrade',
        'upgrade: websocket',
        'sec-websocket-version: 99',
        `sec-websocket-key: ${'A'.repeat(22)}==`,
      ],
    ],
  ])('answers in the envelope to %s', async (_, headers) => {
    world = await startApi();
    const { token } = await world.owner();
    const socket = connect(Number(new URL(world.url).port), '127.0.0.1');
    const lines = [`GET /default/ws/notifications?token=${token} HTTP/1.1`, ...headers];
    socket.write(`${lines.join('\r\n')}\r\n\r\n`);
    const answer = await text(socket);
    expect(answer).toMatch(/^HTTP\/1\.1 400 Bad Request\r\n/);
    expect(answer).toContain('x-service-version: 1.2.3');
    const [, id] = /x-request-id: (\S+)/.exec(answer) ?? [];
    expect(JSON.parse(answer.slice(answer.indexOf('{')))).toMatchObject({
      success: false,
      error: { code: 'BAD_REQUEST', request_id: id },
    });
  });

  it('speaks HTTP to a client that would rather upgrade to something else', async () => {
    world = await startApi();
    const socket = connect(Number(new URL(world.url).port), '127.0.0.1');
    socket.write('GET /healthz HTTP/1.1\r\nhost: x\r\nconnection: upgrade, close\r\nupgrade: h2c\r\n\r\n');
    expect(await text(socket)).toMatch(/^HTTP\/1\.1 200 OK\r\n/);
  });
});
