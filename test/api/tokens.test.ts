import { createHash, createPrivateKey, generateKeyPairSync } from 'node:crypto';
import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { SignJWT, UnsecuredJWT } from 'jose';
import { pino } from 'pino';
import { Registry } from 'prom-client';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { listSigningKeys, rotateSigningKeys } from '../../api/auth/signing-keys.ts';
import { createTokens } from '../../api/auth/tokens.ts';
import { ApiConfig } from '../../api/ground/config.ts';
import { systemRandom } from '../../api/ground/random.ts';
import { createApi } from '../../api/server.ts';
import { isConflict } from '../../store/errors.ts';
import { keys } from '../../store/keys.ts';
import { startMirror } from '../../store/store-mirror.ts';
import { openRepository } from '../../store/repo.ts';
import { password, startApi } from '../harness/api.ts';
import type { ApiWorld } from '../harness/api.ts';
import { FakeClock } from '../harness/fake-clock.ts';

let world: ApiWorld;
let clock: FakeClock;
const email = 'owner@example.test';
const hour = 3_600_000;

beforeEach(async () => {
  clock = new FakeClock();
  world = await startApi({ clock });
});
afterEach(async () => {
  await world[Symbol.asyncDispose]();
  expect(world.faults).toEqual([]);
});

const deps = () => ({ store: world.store, sealer: world.keyring, clock, random: systemRandom });
const part = (token: string, at: number) => JSON.parse(Buffer.from(token.split('.')[at]!, 'base64url').toString());

/** Another replica on the same store; answers with the status of `/auth/me` there. */
async function secondReplica(): Promise<AsyncDisposable & { meBy(token: string): Promise<number> }> {
  await using starting = new AsyncDisposableStack();
  const log = pino({ level: 'error' }, { write: (line: string) => void world.faults.push(line) });
  const { store, keyring, agents } = world;
  const mirror = starting.use(startMirror({ store, clock, log }));
  const api = starting.use(
    await createApi({
      store,
      mirror,
      repositoryFor: (tenant) => openRepository(store, tenant, clock),
      otherLeader: () => undefined,
      sealer: keyring,
      unsealer: keyring,
      agents,
      mailer: { send: () => Promise.resolve() },
      registryLogin: () => Promise.reject(new Error('No registry is asked')),
      probeBucket: () => Promise.reject(new Error('No bucket is asked')),
      searchBucket: () => Promise.reject(new Error('No bucket is asked')),
      clock,
      random: systemRandom,
      log,
      registry: new Registry(),
      config: ApiConfig.parse({ version: '1.2.3', publicUrl: 'http://setpoint.test' }),
    }),
  );
  api.server.listen(0, '127.0.0.1');
  await once(api.server, 'listening');
  const { port } = api.server.address() as AddressInfo; // a TCP server has such an address
  const running = starting.move();
  return {
    async meBy(token) {
      const headers = { authorization: `Bearer ${token}` };
      const answer = await fetch(`http://127.0.0.1:${port}/default/api/v1/auth/me`, { headers });
      await answer.arrayBuffer();
      return answer.status;
    },
    [Symbol.asyncDispose]: () => running.disposeAsync(),
  };
}

describe('SEC-35: the keys that sign tokens', () => {
  it('are rotated while sessions go on, on every replica, at once', async () => {
    const owner = await world.owner();
    await using other = await secondReplica();
    const stored = (await world.store.get(keys.meta('signing-keys')))!.value;
    expect(stored).not.toContain('"d":');
    expect(await rotateSigningKeys(deps())).toBe('rotated');
    const later = (await world.client().post('/auth/login', { email, password })).data.token;
    expect(part(later, 0).kid).not.toBe(part(owner.token!, 0).kid);
    for (const token of [owner.token!, later]) {
      expect(await other.meBy(token)).toBe(200);
      expect((await world.client(token).get('/auth/me')).status).toBe(200);
    }
  });

  it('are dropped when the last token of theirs has expired, and not before', async () => {
    const owner = await world.owner();
    const ninetyDays = { olderThanMs: 90 * 24 * hour };
    expect(await rotateSigningKeys(deps(), ninetyDays)).toBe('kept');
    await clock.advance(90 * 24 * hour);
    const last = (await world.client().post('/auth/login', { email, password })).data.token;
    expect(await rotateSigningKeys(deps(), ninetyDays)).toBe('rotated');
    await clock.advance(24 * hour - 1);
    expect((await world.client(last).get('/auth/me')).status).toBe(200);
    expect(await rotateSigningKeys(deps(), ninetyDays)).toBe('kept');
    await clock.advance(60_002);
    expect(await rotateSigningKeys(deps(), ninetyDays)).toBe('dropped');
    expect(await listSigningKeys(world.store)).toHaveLength(1);
    expect((await world.client(last).get('/auth/me')).status).toBe(401);
    expect((await owner.get('/auth/me')).status).toBe(401);
  });

  it('verify nothing any more once they are dropped, not even what was verified before', async () => {
    const { store, mirror, keyring } = world;
    const tokens = await createTokens({ ...deps(), store, mirror, unsealer: keyring });
    const claims = { tenant: 'default', userId: crypto.randomUUID(), sessionId: crypto.randomUUID() };
    const token = await tokens.sign({ ...claims, expiresAt: clock.now().getTime() + 72 * hour }, clock.now());
    await rotateSigningKeys(deps());
    await world.settled();
    expect(await tokens.verify(token, 'default')).toMatchObject(claims);
    await clock.advance(25 * hour);
    await rotateSigningKeys(deps());
    await world.settled();
    expect(await tokens.verify(token, 'default')).toBeUndefined();
    tokens.close();
  });

  it('are rotated once by two at the same time who find them due, and not by a leader of the past', async () => {
    await clock.advance(hour);
    const due = { olderThanMs: hour };
    const done = await Promise.all([rotateSigningKeys(deps(), due), rotateSigningKeys(deps(), due)]);
    expect(done.toSorted((a, b) => a.localeCompare(b))).toEqual(['kept', 'rotated']);
    const fence = { key: keys.leader('controllers'), is: 'present' } as const;
    const refused = await rotateSigningKeys(deps(), { guards: [fence] }).catch((error: unknown) => error);
    expect(isConflict(refused)).toBe(true);
    expect(await listSigningKeys(world.store)).toHaveLength(2);
  });
});

describe('SEC-35: a token', () => {
  it('of every wrong kind is refused', async () => {
    const owner = await world.owner();
    const [header, claims] = [part(owner.token!, 0), part(owner.token!, 1)];
    const [stored] = JSON.parse((await world.store.get(keys.meta('signing-keys')))!.value).keys;
    const place = { tenant: '*', kind: 'signing_key', id: stored.kid, path: 'private' };
    const d = world.keyring.unseal(stored.private, place);
    const own = createPrivateKey({ key: { kty: 'OKP', crv: 'Ed25519', x: stored.public, d }, format: 'jwk' });
    const sign = (changed: object, head: object = {}, key = own) =>
      new SignJWT({ ...claims, ...changed }).setProtectedHeader({ ...header, ...head }).sign(key);
    const now = Math.floor(clock.now().getTime() / 1000);
    const publicKey = Buffer.from(stored.public, 'base64url');
    const hmac = (key: Uint8Array) =>
      new SignJWT(claims).setProtectedHeader({ alg: 'HS256', typ: 'JWT', kid: header.kid }).sign(key);
    const jwk = { kty: 'OKP', crv: 'Ed25519', x: stored.public };
    const foreign = generateKeyPairSync('ed25519').privateKey;
    const [head, body, signature] = owner.token!.split('.') as [string, string, string];
    expect((await world.client(await sign({})).get('/auth/me')).status).toBe(200);
    const wrong: Record<string, string> = {
      unsigned: new UnsecuredJWT(claims).encode(),
      'unsigned with its key named': `${Buffer.from(JSON.stringify({ ...header, alg: 'none' })).toString('base64url')}.${body}.`,
      'signed with the public key as a secret': await hmac(publicKey),
      'signed with the hash of its key as a secret': await hmac(createHash('sha256').update(publicKey).digest()),
      'of another key under our name': await sign({}, {}, foreign),
      'of another key under its own name': await sign({}, { kid: 'other' }, foreign),
      'with a key of its own inside': await sign({}, { kid: 'other', jwk: { ...jwk, x: 'AAAA' } }, foreign),
      'without the name of a key': await sign({}, { kid: undefined }),
      'of another tenant': await sign({ aud: 'other' }),
      'of no tenant': await sign({ aud: undefined }),
      'of another issuer': await sign({ iss: 'other' }),
      expired: await sign({ iat: now - 90_000, exp: now - 61 }),
      'without an end': await sign({ exp: undefined }),
      'not good yet': await sign({ nbf: now + 3600 }),
      'of another type': await sign({}, { typ: 'at+jwt' }),
      'without a type': await sign({}, { typ: undefined }),
      'without a session': await sign({ sid: undefined }),
      'of a session that is no text': await sign({ sid: 7 }),
      'of no session': await sign({ sid: crypto.randomUUID() }),
      'of another user in the same session': await sign({ sub: crypto.randomUUID() }),
      'without a user': await sign({ sub: undefined }),
      'cut in the middle': owner.token!.slice(0, owner.token!.length / 2),
      'cut at the end': owner.token!.slice(0, -1),
      'without signature': `${head}.${body}`,
      'with another signature': `${head}.${body}.${signature.split('').toReversed().join('')}`,
      'of three empty parts': '..',
      long: `${head}.${body}.${'A'.repeat(10_000)}`,
    };
    for (const [what, token] of Object.entries(wrong))
      expect([what, (await world.client(token).get('/auth/me')).status]).toEqual([what, 401]);
    expect((await owner.get('/auth/me')).status).toBe(200);
  });

  it('of a mebibyte is as wrong as others, though it has no room in the headers', async () => {
    const { store, mirror, keyring } = world;
    const tokens = await createTokens({ ...deps(), store, mirror, unsealer: keyring });
    expect(await tokens.verify('A'.repeat(1024 * 1024), 'default')).toBeUndefined();
    expect(await tokens.verify(`${'A'.repeat(1024 * 1024)}.e30.AA`, 'default')).toBeUndefined();
    tokens.close();
    const long = 'A'.repeat(1024 * 1024);
    for (const headers of [{ authorization: `Bearer ${long}` }, { 'x-service-key': `sp_${long}` }]) {
      const { status, body, headers: answered } = await world.client().get('/auth/me', headers);
      expect([status, body.error?.code, answered.get('www-authenticate')]).toEqual([401, 'UNAUTHORIZED', 'Bearer']);
    }
    expect((await world.client().get('/auth/me', { cookie: long })).status).toBe(400);
    expect((await world.client().get(`/auth/me?${long}`)).status).toBe(400);
    expect((await world.client().get('/auth/setup-status')).status).toBe(200);
  });
});
