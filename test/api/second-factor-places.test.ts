import { Secret, TOTP } from 'otpauth';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { createClient, password, startApi } from '../harness/api.ts';
import type { ApiWorld, Client } from '../harness/api.ts';
import { FakeClock } from '../harness/fake-clock.ts';

/** Who has the password guesses the second factor a bounded number of times a day, and its user is told. */
let world: ApiWorld;
let clock: FakeClock;
let user: Client;
let secret: string;
let recovery: string[];
const email = 'ada@example.test';
const [home, cafe] = ['198.51.100.1', '198.51.100.2'];
const stranger = (n: number) => `203.0.113.${n}`;
const [minute, hour] = [60_000, 3_600_000];

beforeEach(async () => {
  clock = new FakeClock();
  const unlimited = { perMinute: 0, burst: 1 };
  const config = { codeRateLimit: unlimited, heavyRateLimit: unlimited, trustedProxies: ['127.0.0.1'] };
  world = await startApi({ clock, config });
  user = await world.user('user', email);
  const path = '/auth/me/two-factor';
  ({ secret } = (await user.post(path, { password })).data);
  const confirmed = await user.post(`${path}/confirm`, { totp: totp() }, { 'x-forwarded-for': home });
  expect(confirmed.status).toBe(200);
  recovery = confirmed.data.recovery_codes;
  await clock.advance(minute);
});
afterEach(async () => {
  await world[Symbol.asyncDispose]();
  expect(world.faults).toEqual([]);
});

const totp = (): string =>
  new TOTP({ secret: Secret.fromBase32(secret) }).generate({ timestamp: clock.now().getTime() });
/** Is no code of this, the former or the next step. */
const wrong = (): string => {
  const right = new Set(
    [-30_000, 0, 30_000].map((off) =>
      new TOTP({ secret: Secret.fromBase32(secret) }).generate({ timestamp: clock.now().getTime() + off }),
    ),
  );
  return ['000000', '000001', '000002', '000003'].find((code) => !right.has(code))!;
};
const login = (from: string, code: string, by = world.client()) =>
  by.post('/auth/login', { email, password, totp: code }, { 'x-forwarded-for': from });
const verify = (from: string, body: object) =>
  world.client().post('/auth/verify-code', { email, ...body }, { 'x-forwarded-for': from });
const notified = async () =>
  (await user.get('/notifications')).data.filter(({ kind }: { kind: string }) => kind === 'second_factor_wrong');

/** Wrong codes from several addresses, slowly enough for the locks of the replicas. */
async function guess(times: number, from: (n: number) => string, by?: Client): Promise<void> {
  for (let n = 0; n < times; n += 1) {
    expect((await login(from(n), wrong(), by)).status).toBe(401);
    if (n % 5 === 4) await clock.advance(16 * minute);
  }
}

describe('in a day', () => {
  it('twenty wrong second factors close the account to places that are not known, and to no other', async () => {
    await guess(20, stranger);
    const refused = await login(cafe, totp());
    expect([refused.status, refused.body.error?.message]).toEqual([
      429,
      expect.stringContaining('use a recovery code'),
    ]);
    expect((await login(home, totp())).status).toBe(200);
    expect((await login(cafe, recovery[0]!)).status).toBe(200);
    // the recovery code proved this place
    await clock.advance(minute);
    expect((await login(cafe, totp())).status).toBe(200);
    expect((await login(stranger(1), totp())).status).toBe(429);
    await clock.advance(24 * hour);
    expect((await login(stranger(1), totp())).status).toBe(200);
  });

  it('twenty wrong ones at a known place close this one alone', async () => {
    await guess(20, () => home);
    expect((await login(home, totp())).status).toBe(429);
    expect((await login(cafe, totp())).status).toBe(200);
  });

  it('wrong ones count at every replica, and after a mailed code as after the password', async () => {
    const other = createClient(`${await world.replica()}/default/api/v1`, undefined);
    await guess(10, stranger);
    await guess(9, stranger, other);
    await world.client().post('/auth/send-code', { email }, { 'x-forwarded-for': cafe });
    await expect.poll(() => world.mails.find(({ text }) => /^\d{6}/.test(text))).toBeDefined();
    const code = /^\d{6}/.exec(world.mails.find(({ text }) => /^\d{6}/.test(text))!.text)![0];
    expect((await verify(cafe, { code, totp: wrong() })).status).toBe(401);
    expect((await verify(cafe, { code, totp: totp() })).status).toBe(429);
    await clock.advance(16 * minute);
    for (const by of [world.client(), other]) expect((await login(cafe, totp(), by)).status).toBe(429);
  });

  it('wrong ones at the same time are counted each', async () => {
    const answers = await Promise.all(Array.from({ length: 8 }, (_, n) => login(stranger(n), wrong())));
    expect(answers.map(({ status }) => status)).toEqual(answers.map(() => 401));
    await world.settled();
    const [stored] = world.mirror.tenant('default').list('user');
    expect(stored!.desired.two_factor!.failed).toHaveLength(8);
  });
});

describe('the user is told', () => {
  it('of the fifth wrong second factor of a day, by mail and a notification, and of no wrong password', async () => {
    const by = world.client();
    for (let n = 0; n < 6; n += 1)
      await by.post('/auth/login', { email, password: 'not it', totp: wrong() }, { 'x-forwarded-for': stranger(n) });
    await clock.advance(16 * minute);
    await guess(4, stranger);
    expect([await notified(), world.mails]).toEqual([[], []]);
    expect((await login(stranger(7), wrong())).status).toBe(401);
    await expect.poll(() => world.mails.length).toBe(1);
    const text = expect.stringContaining(`the last one came from ${stranger(7)}`);
    expect(world.mails[0]).toMatchObject({ to: email, subject: 'Wrong second factors for your account', text });
    expect(await notified()).toMatchObject([{ severity: 'warning', message: text }]);
    await clock.advance(16 * minute);
    await guess(5, stranger);
    expect([(await notified()).length, world.mails.length]).toEqual([1, 1]);
  });
});
