import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { codeIdOf } from '../../api/auth/login-codes.ts';
import { keys } from '../../store/keys.ts';
import { startApi } from '../harness/api.ts';
import type { ApiWorld } from '../harness/api.ts';
import { FakeClock } from '../harness/fake-clock.ts';

/** SEC-38: what strangers ask for and guess does not take the codes of the owner, and is bounded for the day. */
let world: ApiWorld;
let clock: FakeClock;
const email = 'ada@example.test';
const [home, cafe] = ['198.51.100.1', '198.51.100.2'];
const stranger = (n: number) => `203.0.113.${n}`;
const [minute, hour] = [60_000, 3_600_000];

beforeEach(async () => {
  clock = new FakeClock();
  const config = { codeRateLimit: { perMinute: 0, burst: 1 }, trustedProxies: ['127.0.0.1'] };
  world = await startApi({ clock, config });
  await world.user('admin', email);
});
afterEach(async () => {
  await world[Symbol.asyncDispose]();
  expect(world.faults).toEqual([]);
});

const send = async (from: string) =>
  (await world.client().post('/auth/send-code', { email }, { 'x-forwarded-for': from })).status;
const verify = async (code: string, from: string) =>
  (await world.client().post('/auth/verify-code', { email, code }, { 'x-forwarded-for': from })).status;
const another = (code: string): string => String((Number(code) + 1) % 1_000_000).padStart(6, '0');

async function sentCode(from: string): Promise<string> {
  const before = world.mails.length;
  expect(await send(from)).toBe(200);
  await expect.poll(() => world.mails.length).toBe(before + 1);
  return /^(\d{6}) is your code/.exec(world.mails.at(-1)!.text)![1]!;
}

/** The owner logs in by a code here, and is known here from then on. */
async function logIn(from: string): Promise<void> {
  expect(await verify(await sentCode(from), from)).toBe(200);
}

describe('SEC-38: a code', () => {
  it('stays good while strangers ask for others and guess at all of them', async () => {
    const code = await sentCode(home);
    for (let n = 0; n < 3; n += 1) {
      const theirs = await sentCode(stranger(n));
      for (let guess = 0; guess < 5; guess += 1) expect(await verify(another(theirs), stranger(n))).toBe(401);
    }
    expect(await verify(code, home)).toBe(200);
  });

  it('may be typed where it was not asked for, and is good for five guesses from elsewhere', async () => {
    expect(await verify(await sentCode(home), cafe)).toBe(200);
    await clock.advance(minute);
    const code = await sentCode(home);
    for (let n = 0; n < 5; n += 1) expect(await verify(another(code), stranger(n))).toBe(401);
    expect(await verify(code, stranger(9))).toBe(401);
    expect(await verify(code, home)).toBe(200);
  });

  it('of a place of the owner is the one that is meant elsewhere, whatever strangers asked for since', async () => {
    await logIn(home);
    await clock.advance(minute);
    const code = await sentCode(home);
    await sentCode(stranger(1));
    expect(await verify(code, cafe)).toBe(200);
  });
});

describe('SEC-38: in a day', () => {
  it('twenty codes are sent to places that are not known, and the owner gets more where the last login was', async () => {
    await logIn(home);
    for (let n = 0; n < 20; n += 1) await sentCode(stranger(n));
    expect([await send(stranger(20)), await send(cafe)]).toEqual([429, 429]);
    await clock.advance(minute);
    await logIn(home);
    await clock.advance(24 * hour);
    expect(await send(cafe)).toBe(200);
  });

  it('twenty wrong guesses close codes to strangers, and not to the owner where the last login was', async () => {
    await logIn(home);
    for (let n = 0; n < 4; n += 1) {
      const code = await sentCode(stranger(n));
      for (let guess = 0; guess < 5; guess += 1) expect(await verify(another(code), stranger(n))).toBe(401);
    }
    const right = await sentCode(stranger(5));
    expect(await verify(right, stranger(5))).toBe(429);
    await clock.advance(minute);
    await logIn(home);
    await clock.advance(24 * hour);
    expect(await verify(await sentCode(cafe), cafe)).toBe(200);
  });

  it('twenty wrong guesses close codes also where the owner is known', async () => {
    await logIn(home);
    for (let n = 0; n < 4; n += 1) {
      await clock.advance(20 * minute);
      const code = await sentCode(home);
      for (let guess = 0; guess < 5; guess += 1) expect(await verify(another(code), home)).toBe(401);
    }
    await clock.advance(20 * minute);
    expect(await verify(await sentCode(home), home)).toBe(429);
    expect(await verify(await sentCode(cafe), cafe)).toBe(200);
  });
});

it('what is kept of an address has a bound, however many places ask and guess', async () => {
  for (let round = 0; round < 4; round += 1) {
    for (let n = 0; n < 8; n += 1) {
      await send(stranger(round * 8 + n));
      await verify('000000', stranger(round * 8 + n));
    }
    await clock.advance(hour);
  }
  await world.settled();
  const { sent, failed, codes } = world.mirror.tenant('default').get('login_code', codeIdOf(email))!.desired;
  expect([sent.length, failed.length <= 20, codes.length <= 10]).toEqual([20, true, true]);
});

it('a code of a store of the version before is still good', async () => {
  const code = await sentCode(home);
  await world.settled();
  const id = codeIdOf(email);
  const key = keys.desired('default', 'login_code', id);
  const stored = JSON.parse((await world.store.get(key))!.value);
  const { hash, expires_at } = world.mirror.tenant('default').get('login_code', id)!.desired.codes[0]!;
  const old = { email, hash, expires_at, failures: 1, sent_at: [clock.now().toISOString()] };
  const value = JSON.stringify({ ...stored, v: 1, desired: old });
  await world.store.txn({ if: [], then: [{ put: key, value }] });
  await world.settled();
  expect(await verify(code, home)).toBe(200);
});
