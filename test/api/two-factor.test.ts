import { Secret, TOTP } from 'otpauth';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { keys } from '../../store/keys.ts';
import { password, startApi } from '../harness/api.ts';
import type { ApiWorld, Client } from '../harness/api.ts';
import { FakeClock } from '../harness/fake-clock.ts';
import { openFrames } from '../harness/frames.ts';
import type { Frames } from '../harness/frames.ts';

let world: ApiWorld;
let clock: FakeClock;

beforeEach(async () => {
  clock = new FakeClock();
  world = await startApi({ clock });
});
afterEach(async () => {
  await world[Symbol.asyncDispose]();
  expect(world.faults).toEqual([]);
});

const email = 'ada@example.test';
const path = '/auth/me/two-factor';
const totpOf = (secret: string, offMs = 0): string =>
  new TOTP({ secret: Secret.fromBase32(secret) }).generate({ timestamp: clock.now().getTime() + offMs });
const login = (totp?: string) => world.client().post('/auth/login', { email, password, totp });
const reasonOf = (answer: Awaited<ReturnType<typeof login>>) => [
  answer.status,
  answer.body.error?.details?.[0]?.reason,
];

const listen = (by: Client): Promise<Frames> =>
  openFrames(`${world.url.replace('http', 'ws')}/default/ws/notifications?token=${by.token}`);

/** A user with a second factor whose code was just used. */
async function protectedUser(): Promise<{ user: Client & { id: string }; secret: string; recovery: string[] }> {
  const user = await world.user('user', email);
  const { secret } = (await user.post(path, { password })).data;
  const confirmed = await user.post(`${path}/confirm`, { totp: totpOf(secret) });
  expect(confirmed.status).toBe(200);
  return { user, secret, recovery: confirmed.data.recovery_codes };
}

describe('the setup of a second factor', () => {
  it('needs a proof, asks for nothing before its confirmation, and then ends other sessions', async () => {
    const user = await world.user('user', email);
    const other = world.client((await login()).data.token);
    expect((await user.get(path)).data).toEqual({ enabled: false, pending: false, recovery_codes_left: 0 });
    expect((await user.post(path, {})).status).toBe(400);
    expect((await user.post(path, { password: 'wrong one' })).status).toBe(400);
    expect((await user.post(`${path}/confirm`, { totp: '123456' })).status).toBe(409);
    const { secret, uri } = (await user.post(path, { password })).data;
    expect(uri).toBe(
      `otpauth://totp/Setpoint:ada%40example.test?issuer=Setpoint&secret=${secret}&algorithm=SHA1&digits=6&period=30`,
    );
    expect((await user.get(path)).data).toMatchObject({ enabled: false, pending: true });
    expect((await login()).status).toBe(200);
    expect((await user.post(`${path}/confirm`, { totp: totpOf(secret, 600_000) })).status).toBe(400);
    await using stream = await listen(other);
    const confirmed = await user.post(`${path}/confirm`, { totp: totpOf(secret) });
    expect(await stream.closed).toMatchObject({ code: 4401 });
    expect(confirmed.data.recovery_codes).toHaveLength(10);
    expect(new Set(confirmed.data.recovery_codes).size).toBe(10);
    expect((await user.get('/auth/me')).data.two_factor_enabled).toBe(true);
    expect((await user.get(path)).data).toEqual({ enabled: true, pending: false, recovery_codes_left: 10 });
    expect((await other.get('/auth/me')).status).toBe(401);
    expect((await user.post(path, { password })).status).toBe(409);
    const stored = (await world.store.list(keys.all)).entries.map(({ value }) => value).join('\n');
    for (const text of [secret, ...confirmed.data.recovery_codes]) expect(stored).not.toContain(text);
  });

  it('is good for a quarter of an hour', async () => {
    const user = await world.user('user', email);
    const { secret } = (await user.post(path, { password })).data;
    await clock.advance(15 * 60_000);
    expect((await user.post(`${path}/confirm`, { totp: totpOf(secret) })).status).toBe(409);
  });

  it('is proven by a one-time code where there is no password', async () => {
    const user = await world.user('user', email);
    await world.repo.change('user', user.id, (draft) => void delete draft.password_hash);
    await world.client().post('/auth/send-code', { email });
    await expect.poll(() => world.mails.length).toBe(1);
    const code = /^\d{6}/.exec(world.mails[0]!.text)![0];
    expect((await user.post(path, { code: '12345' })).status).toBe(400);
    expect((await user.post(path, { code })).status).toBe(200);
    expect((await user.post(path, { code })).status).toBe(400);
  });
});

describe('a login with a second factor', () => {
  it('says that a code is needed, and takes each code once', async () => {
    const { secret } = await protectedUser();
    expect(reasonOf(await login())).toEqual([401, 'totp_required']);
    expect(reasonOf(await login(totpOf(secret)))).toEqual([401, 'totp_wrong']);
    await clock.advance(30_000);
    const now = totpOf(secret);
    const answers = await Promise.all(Array.from({ length: 5 }, () => login(now)));
    expect(answers.map(({ status }) => status).toSorted((a, b) => a - b)).toEqual([200, 401, 401, 401, 401]);
    expect(reasonOf(await login(totpOf(secret, -30_000)))).toEqual([401, 'totp_wrong']);
    expect((await login(totpOf(secret, 30_000))).status).toBe(200);
  });

  it('takes the code of the step before and of the one after, and of none further', async () => {
    const { secret } = await protectedUser();
    await clock.advance(120_000);
    for (const offMs of [-90_000, -60_000, 60_000, 90_000])
      expect([offMs, ...reasonOf(await login(totpOf(secret, offMs)))]).toEqual([offMs, 401, 'totp_wrong']);
    expect((await login(totpOf(secret, -30_000))).status).toBe(200);
    expect((await login(totpOf(secret, 30_000))).status).toBe(200);
  });

  it('says nothing of the second factor to whoever does not know the password', async () => {
    const { secret } = await protectedUser();
    await clock.advance(30_000);
    const answer = await world.client().post('/auth/login', { email, password: 'wrong one', totp: totpOf(secret) });
    expect([answer.status, answer.body.error?.details]).toEqual([401, undefined]);
    expect((await login(totpOf(secret))).status).toBe(200);
  });

  it('is refused after ten wrong codes', async () => {
    const { secret } = await protectedUser();
    await clock.advance(30_000);
    const wrong = String((Number(totpOf(secret)) + 1) % 1_000_000).padStart(6, '0');
    for (let n = 0; n < 10; n += 1) expect((await login(wrong)).status).toBe(401);
    expect((await login(totpOf(secret))).status).toBe(429);
  });

  it('takes each recovery code once, however it is written', async () => {
    const { user, recovery } = await protectedUser();
    const [first = '', second = ''] = recovery;
    const answers = await Promise.all(Array.from({ length: 4 }, () => login(first)));
    expect(answers.map(({ status }) => status).toSorted((a, b) => a - b)).toEqual([200, 401, 401, 401]);
    expect((await login(` ${second.toUpperCase().replace('-', ' ')} `)).status).toBe(200);
    expect((await user.get(path)).data.recovery_codes_left).toBe(8);
  });

  it('by a one-time code asks for it too, and leaves the code for the second try', async () => {
    const { secret } = await protectedUser();
    await world.client().post('/auth/send-code', { email });
    await expect.poll(() => world.mails.length).toBe(1);
    const code = /^\d{6}/.exec(world.mails[0]!.text)![0];
    await clock.advance(30_000);
    const verify = (totp?: string) => world.client().post('/auth/verify-code', { email, code, totp });
    expect(reasonOf(await verify())).toEqual([401, 'totp_required']);
    expect(reasonOf(await verify('000'))).toEqual([401, 'totp_wrong']);
    expect((await verify(totpOf(secret))).status).toBe(200);
    expect((await verify(totpOf(secret, 30_000))).status).toBe(401);
  });
});

describe('a second factor', () => {
  it('is disabled by a code, which ends other sessions', async () => {
    const { user, secret } = await protectedUser();
    await clock.advance(30_000);
    const other = world.client((await login(totpOf(secret))).data.token);
    const disable = (totp?: string) => user.request('DELETE', path, { totp });
    expect((await user.delete(path)).status).toBe(400);
    expect((await disable('000000')).status).toBe(400);
    expect((await disable(totpOf(secret))).status).toBe(400);
    await clock.advance(30_000);
    await using stream = await listen(other);
    expect((await disable(totpOf(secret))).data).toEqual({ enabled: false });
    expect(await stream.closed).toMatchObject({ code: 4401 });
    expect((await other.get('/auth/me')).status).toBe(401);
    expect((await user.get('/auth/me')).data.two_factor_enabled).toBe(false);
    expect((await disable(totpOf(secret, 30_000))).status).toBe(409);
    expect((await login()).status).toBe(200);
  });

  it('gets new recovery codes, which make the earlier ones void', async () => {
    const { user, secret, recovery } = await protectedUser();
    await clock.advance(30_000);
    const renewed = (await user.post(`${path}/recovery-codes`, { totp: totpOf(secret) })).data.recovery_codes;
    expect(renewed).toHaveLength(10);
    expect((await login(recovery[0])).status).toBe(401);
    expect((await login(renewed[0])).status).toBe(200);
    expect((await user.request('DELETE', path, { totp: renewed[1] })).status).toBe(200);
  });
});
