import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { keys } from '../../store/keys.ts';
import { password, startApi } from '../harness/api.ts';
import type { Answer, ApiWorld, Client } from '../harness/api.ts';
import { FakeClock } from '../harness/fake-clock.ts';
import { openFrames } from '../harness/frames.ts';
import type { Credential } from '../harness/stage.ts';

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

const minute = 60_000;
const better = 'another correct horse';
const reasonOf = ({ status, body }: Answer) => [status, body.error?.details?.[0]?.reason];

/** The code of a new mail to the address. */
async function newCode(email: string): Promise<string> {
  const before = world.mails.length;
  expect((await world.client().post('/auth/send-code', { email })).status).toBe(200);
  await expect.poll(() => world.mails.length).toBe(before + 1);
  return /^(\d{6}) is your code/.exec(world.mails.at(-1)!.text)![1]!;
}

/** Somebody without a password, logged in by a code. */
async function passwordless(email = 'ada@example.test'): Promise<Client & { id: string }> {
  const { id } = await world.user('user', email);
  await world.repo.change('user', id, (draft) => void delete draft.password_hash);
  const { data } = await world.client().post('/auth/verify-code', { email, code: await newCode(email) });
  return Object.assign(world.client(data.token), { id });
}

describe('SEC-37: a first password', () => {
  const first = '/auth/me/set-initial-password';

  it('is not chosen by a service key, however young and wide it is', async () => {
    const ada = await passwordless();
    const { key } = (await ada.post('/settings/service-keys', { name: 'ci' })).data;
    const answer = await world.client().post(first, { password: better }, { 'x-service-key': key });
    expect([answer.status, answer.body.error?.message]).toEqual([403, expect.stringContaining('log in')]);
    expect((await ada.get('/auth/me')).data.has_password).toBe(false);
  });

  it('is chosen within ten minutes of the login by code', async () => {
    const ada = await passwordless();
    await clock.advance(10 * minute);
    expect((await ada.post(first, { password: better })).status).toBe(200);
    const login = await world.client().post('/auth/login', { email: 'ada@example.test', password: better });
    expect(login.status).toBe(200);
  });

  it('needs another code later, which is then used up', async () => {
    const ada = await passwordless();
    await clock.advance(10 * minute + 1);
    expect(reasonOf(await ada.post(first, { password: better }))).toEqual([403, 'code_required']);
    const code = await newCode('ada@example.test');
    const wrong = String((Number(code) + 1) % 1_000_000).padStart(6, '0');
    expect(reasonOf(await ada.post(first, { password: better, code: wrong }))).toEqual([400, 'wrong']);
    expect(reasonOf(await ada.post(first, { password: 'short', code }))).toEqual([400, 'length']);
    expect((await ada.post(first, { password: better, code })).status).toBe(200);
    expect((await world.client().post('/auth/verify-code', { email: 'ada@example.test', code })).status).toBe(401);
  });
});

describe('SEC-41: wrong guesses of a stranger', () => {
  const email = 'ada@example.test';

  beforeEach(async () => {
    // each from another address: what is closed is the account
    await world[Symbol.asyncDispose]();
    world = await startApi({ clock, config: { trustedProxies: ['127.0.0.1'] } });
  });

  /** As many as close the account to logins by password. */
  async function guess(): Promise<void> {
    for (let n = 0; n < 10; n += 1) {
      const from = { 'x-forwarded-for': `198.51.100.${n}` };
      await world.client().post('/auth/login', { email, password: 'wrong password' }, from);
    }
    expect((await world.client().post('/auth/login', { email, password })).status).toBe(429);
  }

  it('do not keep the owner who is logged in from changing the password or beginning a second factor', async () => {
    const ada = await world.user('user', email);
    await guess();
    expect((await ada.post('/auth/me/two-factor', { password })).status).toBe(200);
    const answer = await ada.put('/auth/me/password', { current_password: password, new_password: better });
    expect(answer.status).toBe(200);
  });

  it('are not what an owner makes: ten of those close the change to this session', async () => {
    const ada = await world.user('user', email);
    const change = (current_password: string) =>
      ada.put('/auth/me/password', { current_password, new_password: better });
    for (let n = 0; n < 10; n += 1) expect((await change('wrong password')).status).toBe(400);
    expect((await change(password)).status).toBe(429);
    expect((await world.client().post('/auth/login', { email, password })).status).toBe(200);
  });
});

describe('SEC-37: a key that another key made', () => {
  const make = async (by: Credential, fields: object = {}) => {
    const { status, data } = await world.client().post('/settings/service-keys', { name: 'k', ...fields }, by);
    expect(status).toBe(201);
    return { id: data.id as string, parent: data.parent_id, by: { 'x-service-key': data.key as string } };
  };
  const meBy = async (by: Credential) => (await world.client().get('/auth/me', by)).status;

  it('says which one made it, and ends with it and with every one before it', async () => {
    const owner = await world.owner();
    const first = await make({ authorization: `Bearer ${owner.token}` });
    const second = await make(first.by);
    const third = await make(second.by);
    const other = await make({ authorization: `Bearer ${owner.token}` });
    expect([first.parent, second.parent, third.parent]).toEqual([null, first.id, second.id]);
    await using frames = await openFrames(`${world.url.replace('http', 'ws')}/default/ws/notifications`, third.by);
    expect(await meBy(third.by)).toBe(200);
    expect((await owner.delete(`/settings/service-keys/${first.id}`)).status).toBe(204);
    expect([await meBy(second.by), await meBy(third.by), await meBy(other.by)]).toEqual([401, 401, 200]);
    expect((await frames.closed).code).toBe(4401);
  });

  it('expires with it', async () => {
    const owner = await world.owner();
    const expires_at = new Date(clock.now().getTime() + 60 * minute).toISOString();
    const parent = await make({ authorization: `Bearer ${owner.token}` }, { expires_at });
    const child = await make(parent.by, { expires_at });
    await world.repo.change('service_key', child.id, (draft) => void delete draft.expires_at);
    await clock.advance(60 * minute - 1);
    expect(await meBy(child.by)).toBe(200);
    await clock.advance(1);
    expect(await meBy(child.by)).toBe(401);
  });

  it('cannot be made once its maker was revoked, and stays where it was made by one of a former version', async () => {
    const owner = await world.owner();
    const parent = await make({ authorization: `Bearer ${owner.token}` });
    const child = await make(parent.by);
    await world.repo.change('service_key', child.id, (draft) => void delete draft.parent_id);
    expect((await owner.delete(`/settings/service-keys/${parent.id}`)).status).toBe(204);
    expect((await world.client().post('/settings/service-keys', { name: 'late' }, parent.by)).status).toBe(401);
    expect(await meBy(child.by)).toBe(200);
  });
});

describe('keys of a user', () => {
  it('are listed to admins without their values, and to nobody else', async () => {
    const owner = await world.owner();
    const [user, admin] = [await world.user(), await world.user('admin')];
    const { data } = await user.post('/settings/service-keys', { name: 'mine' });
    const listed = await admin.get(`/users/${user.id}/service-keys`);
    expect(listed.data).toEqual([expect.objectContaining({ id: data.id, name: 'mine' })]);
    expect(JSON.stringify(listed.body)).not.toContain(data.key);
    expect((await owner.get(`/users/${admin.id}/service-keys`)).data).toEqual([]);
    expect((await user.get(`/users/${user.id}/service-keys`)).status).toBe(403);
  });
});

describe('SEC-37: a key that is narrowed to a project', () => {
  it.each(['token', 'key'] as const)(
    'and its owner get each their own list at one revision, the %s first',
    async (first) => {
      const user = await world.user();
      const [one, two] = [await world.place(user), await world.place(user)];
      const { key } = (await user.post('/settings/service-keys', { name: 'k', project_id: one.project })).data;
      const ask = {
        token: () => user.get('/projects'),
        key: () => world.client().get('/projects', { 'x-service-key': key }),
      };
      await ask.key(); // notes its use, which it does once
      await world.settled();
      const before = await world.store.revision();
      const order = first === 'token' ? (['token', 'key'] as const) : (['key', 'token'] as const);
      const seen = { token: [] as string[], key: [] as string[] };
      for (const by of order) seen[by] = (await ask[by]()).data.map(({ id }: { id: string }) => id).toSorted();
      expect(await world.store.revision()).toBe(before);
      expect(seen).toEqual({ token: [one.project, two.project].toSorted(), key: [one.project] });
    },
  );
});

describe('SEC-32: a user who is being deleted', () => {
  it('does nothing any more, by token, key or stream, though the record is still there', async () => {
    const user = await world.user();
    const { key } = (await user.post('/settings/service-keys', { name: 'k' })).data;
    await using frames = await openFrames(`${world.url.replace('http', 'ws')}/default/ws/notifications`, {
      authorization: `Bearer ${user.token}`,
    });
    // as a controller that had something to finish would hold it
    const at = keys.desired('default', 'user', user.id);
    const record = JSON.parse((await world.store.get(at))!.value);
    const value = JSON.stringify({ ...record, finalizers: ['held'], deletionRequestedAt: clock.now().toISOString() });
    await world.store.txn({ if: [], then: [{ put: at, value }] });
    expect((await user.get('/auth/me')).status).toBe(401);
    expect((await world.client().get('/auth/me', { 'x-service-key': key })).status).toBe(401);
    expect((await frames.closed).code).toBe(4401);
  });
});
