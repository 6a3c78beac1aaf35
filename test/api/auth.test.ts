import { createHash, generateKeyPairSync } from 'node:crypto';
import { SignJWT } from 'jose';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { isServiceKeyForm } from '../../api/auth/service-key.ts';
import type { ApiConfig } from '../../api/ground/config.ts';
import { keys } from '../../store/keys.ts';
import { password, startApi } from '../harness/api.ts';
import type { Answer, ApiWorld } from '../harness/api.ts';

let world: ApiWorld;

beforeEach(async () => {
  world = await startApi();
});
afterEach(async () => {
  await world[Symbol.asyncDispose]();
  expect(world.faults).toEqual([]);
});

const email = 'owner@example.test';

describe('SEC-43: registration', () => {
  it('makes the first user a superadmin and is closed afterwards', async () => {
    const visitor = world.client();
    expect((await visitor.get('/auth/setup-status')).data).toEqual({
      setup_complete: false,
      setup_token_required: false,
    });
    const first = await visitor.post('/auth/register', { email, password, first_name: 'Olive', last_name: 'Owner' });
    expect(first.status).toBe(201);
    expect(first.data.user).toEqual({
      id: expect.any(String),
      email,
      first_name: 'Olive',
      last_name: 'Owner',
      role: 'superadmin',
    });
    expect((await visitor.get('/auth/setup-status')).data.setup_complete).toBe(true);
    const second = await visitor.post('/auth/register', { email: 'b@example.test', password });
    expect(second.status).toBe(403);
    expect(second.body.error?.code).toBe('FORBIDDEN');
  });

  it('has exactly one winner of many at once', async () => {
    const answers = await Promise.all(
      Array.from({ length: 100 }, (_, n) =>
        world.client().post('/auth/register', { email: `u${n}@example.test`, password }),
      ),
    );
    expect(answers.filter(({ status }) => status === 201)).toHaveLength(1);
    // what does not find a place in the queue of hashes is sent away before it can win
    for (const { status } of answers) expect([201, 403, 429]).toContain(status);
    await world.settled();
    expect(world.mirror.tenant('default').list('user')).toHaveLength(1);
  });

  it.each([
    ['short', 'length'],
    ['x'.repeat(129), 'length'],
    ['password123', 'common'],
    ['PASSWORD123', 'common'],
  ])('refuses the password %s', async (bad, reason) => {
    const answer = await world.client().post('/auth/register', { email, password: bad });
    expect(answer.status).toBe(400);
    expect(answer.body.error?.details).toEqual([expect.objectContaining({ field: 'password', reason })]);
  });
});

describe('SEC-43: the setup token', () => {
  const restart = async (setupToken: ApiConfig['setupToken']) => {
    await world[Symbol.asyncDispose]();
    world = await startApi({ config: { setupToken } });
  };
  const register = (setup_token?: string, tenant?: string) =>
    world.client(undefined, tenant).post('/auth/register', { email, password, setup_token });
  const reasonOf = ({ status, body }: Answer) => [status, body.error?.details?.[0]?.reason];

  it('is asked of the first user, and not shown', async () => {
    await restart({ value: 'a token of the operator' });
    const status = await world.client().get('/auth/setup-status');
    expect(status.data).toEqual({ setup_complete: false, setup_token_required: true });
    expect(reasonOf(await register())).toEqual([403, 'setup_token_required']);
    expect(reasonOf(await register('a token of somebody'))).toEqual([403, 'setup_token_wrong']);
    expect((await register('a token of the operator')).status).toBe(201);
    expect((await world.client().get('/auth/setup-status')).data.setup_token_required).toBe(false);
    expect(reasonOf(await register('a token of the operator'))).toEqual([403, undefined]);
  });

  it('of one tenant is of no use in another', async () => {
    await restart({ own: true });
    await world.store.txn({ if: [], then: [{ put: keys.tenant('other'), value: '{}' }] });
    const [own, other] = [world.setupToken('default')!, world.setupToken('other')!];
    expect(own).not.toBe(other);
    expect((await register(other)).status).toBe(403);
    expect((await register(own, 'other')).status).toBe(403);
    expect((await register(other, 'other')).status).toBe(201);
    expect((await register(own)).status).toBe(201);
  });
});

describe('a login', () => {
  it('gives a token that is good for this tenant only, whatever case the address is in', async () => {
    await world.owner();
    const answer = await world.client().post('/auth/login', { email: 'OWNER@example.test', password });
    expect(answer.status).toBe(200);
    expect(answer.data.user.role).toBe('superadmin');
    expect((await world.client(answer.data.token).get('/auth/me')).data).toMatchObject({
      email,
      two_factor_enabled: false,
    });
    await world.store.txn({ if: [], then: [{ put: keys.tenant('other'), value: '{}' }] });
    expect((await world.client(answer.data.token, 'other').get('/auth/me')).status).toBe(401);
  });

  it('answers the same for a wrong password and an unknown address', async () => {
    await world.owner();
    const wrong = await world.client().post('/auth/login', { email, password: 'wrong password' });
    const unknown = await world.client().post('/auth/login', { email: 'nobody@example.test', password });
    expect([wrong.status, unknown.status]).toEqual([401, 401]);
    expect(wrong.body.error?.message).toBe(unknown.body.error?.message);
  });

  it('is refused with the right password after ten wrong ones, and says for how long', async () => {
    await world.owner();
    const visitor = world.client();
    const wrong = await Promise.all(
      Array.from({ length: 10 }, () => visitor.post('/auth/login', { email, password: 'wrong password' })),
    );
    expect(wrong.every(({ status }) => status === 401)).toBe(true);
    const refused = await visitor.post('/auth/login', { email, password });
    expect(refused.status).toBe(429);
    expect(Number(refused.headers.get('retry-after'))).toBeGreaterThan(0);
  });

  it('is counted under the address that the client really has, whatever it says of itself', async () => {
    await world.owner();
    const attempt = (n: number) =>
      world
        .client()
        .post('/auth/login', { email: `u${n}@example.test`, password }, { 'x-forwarded-for': `203.0.113.${n}` });
    for (let n = 0; n < 50; n += 1) expect((await attempt(n)).status).toBe(401);
    expect((await attempt(50)).status).toBe(429);
  });

  it('behind a trusted proxy is counted under the address that the proxy saw', async () => {
    await world[Symbol.asyncDispose]();
    world = await startApi({ config: { trustedProxies: ['127.0.0.1'] } });
    const attempt = (n: number, forwarded: string) =>
      world.client().post('/auth/login', { email: `u${n}@example.test`, password }, { 'x-forwarded-for': forwarded });
    for (let n = 0; n < 50; n += 1) expect((await attempt(n, `198.51.100.${n}, 203.0.113.9`)).status).toBe(401);
    expect((await attempt(50, '198.51.100.50, 203.0.113.9')).status).toBe(429);
    expect((await attempt(51, '203.0.113.10')).status).toBe(401);
  });

  it('is not counted against the limit when it succeeds', async () => {
    await world.owner();
    for (let n = 0; n < 12; n += 1)
      expect((await world.client().post('/auth/login', { email, password })).status).toBe(200);
  });

  it('stores no password and no token', async () => {
    const owner = await world.owner();
    const { entries } = await world.store.list(keys.all);
    const stored = entries.map(({ value }) => value).join('\n');
    expect(stored).not.toContain(password);
    expect(stored).not.toContain(owner.token);
    expect(stored).toContain('$argon2id$v=19$m=19456,t=2,p=1$');
  });

  it('stores of a request that may be repeated no hash by which its password could be guessed', async () => {
    const owner = await world.owner();
    const body = { email, password };
    const headers = { 'idempotency-key': 'k' };
    const first = await owner.post('/auth/login', body, headers);
    expect((await owner.post('/auth/login', body, headers)).data.token).toBe(first.data.token);
    expect((await owner.post('/auth/login', { ...body, password: 'x' }, headers)).status).toBe(409);
    const { entries } = await world.store.list({ prefix: keys.idempotency('default', '') });
    expect(entries).toHaveLength(1);
    for (const text of [JSON.stringify(body), password])
      expect(entries[0]!.value).not.toContain(createHash('sha256').update(text).digest('hex'));
  });
});

describe('a token', () => {
  it('is no longer good after its logout, which succeeds in any case', async () => {
    const owner = await world.owner();
    expect((await owner.get('/auth/me')).status).toBe(200);
    expect((await owner.post('/auth/logout')).status).toBe(200);
    expect((await owner.get('/auth/me')).status).toBe(401);
    expect((await owner.post('/auth/logout')).status).toBe(200);
    expect((await world.client().post('/auth/logout')).status).toBe(200);
  });

  it('is refused when it is forged, unsigned, of another key or of another algorithm', async () => {
    const owner = await world.owner();
    const [head, body, signature] = owner.token!.split('.') as [string, string, string];
    const claims = JSON.parse(Buffer.from(body, 'base64url').toString());
    const header = JSON.parse(Buffer.from(head, 'base64url').toString());
    expect(header).toMatchObject({ alg: 'EdDSA', typ: 'JWT' });
    expect(claims).toMatchObject({ aud: 'default', sub: expect.any(String), sid: expect.any(String) });
    expect(claims.exp - claims.iat).toBe(24 * 3600);
    const none = `${Buffer.from('{"alg":"none"}').toString('base64url')}.${body}.`;
    const foreign = generateKeyPairSync('ed25519').privateKey;
    const signed = await new SignJWT(claims).setProtectedHeader({ ...header }).sign(foreign);
    const symmetric = await new SignJWT(claims)
      .setProtectedHeader({ alg: 'HS256', kid: header.kid })
      .sign(createHash('sha256').update(header.kid).digest());
    const widened = Buffer.from(JSON.stringify({ ...claims, aud: 'other' })).toString('base64url');
    const forged = [none, signed, symmetric, `${head}.${widened}.${signature}`, `${head}.${body}`, 'x', ''];
    for (const token of forged) expect((await world.client(token).get('/auth/me')).status, token).toBe(401);
    expect((await owner.get('/auth/me')).status).toBe(200);
  });

  it('is not good while its user is disabled', async () => {
    const user = await world.user();
    await world.repo.change('user', user.id, (draft) => void (draft.disabled = true));
    expect((await user.get('/auth/me')).status).toBe(401);
    await world.repo.change('user', user.id, (draft) => void (draft.disabled = false));
    expect((await user.get('/auth/me')).status).toBe(200);
  });
});

describe('one’s own account', () => {
  it('changes names, and neither role nor address', async () => {
    const owner = await world.owner();
    const changed = await owner.put('/auth/me', { first_name: 'Ada', last_name: 'Lovelace' });
    expect(changed.data).toMatchObject({ first_name: 'Ada', last_name: 'Lovelace' });
    for (const field of ['role', 'email', 'must_reset_password', 'surprise'])
      expect((await owner.put('/auth/me', { [field]: 'admin' })).status, field).toBe(400);
  });

  it('ends other sessions when the password changes, however many', async () => {
    const owner = await world.owner();
    const others = await Promise.all(
      Array.from({ length: 25 }, async () => {
        const { data } = await world.client().post('/auth/login', { email, password });
        return world.client(data.token);
      }),
    );
    const body = { current_password: password, new_password: 'another horse battery' };
    expect((await owner.put('/auth/me/password', { ...body, current_password: 'wrong one' })).status).toBe(400);
    expect((await owner.put('/auth/me/password', { ...body, new_password: 'qwertyuiop' })).status).toBe(400);
    expect((await owner.put('/auth/me/password', body)).status).toBe(200);
    expect((await owner.get('/auth/me')).status).toBe(200);
    for (const other of others) expect((await other.get('/auth/me')).status).toBe(401);
    expect((await world.client().post('/auth/login', { email, password })).status).toBe(401);
    expect((await world.client().post('/auth/login', { email, password: body.new_password })).status).toBe(200);
  });

  it('gets a first password only where there is none', async () => {
    const owner = await world.owner();
    expect((await owner.post('/auth/me/set-initial-password', { password: 'whatever it is' })).status).toBe(409);
    const user = await world.user();
    await world.repo.change('user', user.id, (draft) => {
      delete draft.password_hash;
    });
    expect((await user.post('/auth/me/set-initial-password', {})).status).toBe(400);
    expect((await user.post('/auth/me/set-initial-password', { password: 'whatever it is' })).status).toBe(200);
    expect((await user.post('/auth/me/set-initial-password', { password: 'whatever it is' })).status).toBe(409);
  });
});

describe('SEC-37: a service key', () => {
  it('is shown once, is listed without its value, and acts for its user until it is revoked', async () => {
    const owner = await world.owner();
    const made = await owner.post('/settings/service-keys', { name: 'ci' });
    expect(made.status).toBe(201);
    const { key, id } = made.data;
    expect(key).toMatch(/^sp_[0-9A-Za-z]{46}$/);
    expect(isServiceKeyForm(key)).toBe(true);
    const { entries } = await world.store.list(keys.all);
    expect(entries.map(({ value }) => value).join('\n')).not.toContain(key);
    const byKey = world.client();
    const headers = { 'x-service-key': key };
    expect((await byKey.get('/auth/me', headers)).data.email).toBe(email);
    const misplaced = await byKey.get('/auth/me', { authorization: `Bearer ${key}` });
    expect(misplaced.status).toBe(401);
    expect(misplaced.body.error?.message).toContain('x-service-key');
    const listed = await owner.get('/settings/service-keys');
    expect(listed.data).toEqual([
      {
        id,
        name: 'ci',
        prefix: key.slice(0, 10),
        scopes: null,
        project_id: null,
        expires_at: null,
        parent_id: null,
        last_used_at: expect.any(String),
        generation: 1,
        observed_generation: 1,
        resource_version: expect.any(String),
        labels: {},
        conditions: [],
        created_at: expect.any(String),
        updated_at: expect.any(String),
      },
    ]);
    expect((await owner.delete(`/settings/service-keys/${id}`)).status).toBe(204);
    expect((await byKey.get('/auth/me', headers)).status).toBe(401);
    expect((await owner.delete(`/settings/service-keys/${id}`)).status).toBe(404);
  });

  it('writes its last use once and not at each request', async () => {
    const owner = await world.owner();
    const { key } = (await owner.post('/settings/service-keys', { name: 'ci' })).data;
    await world.client().get('/auth/me', { 'x-service-key': key });
    await world.settled();
    const before = await world.store.revision();
    for (let n = 0; n < 5; n += 1) await world.client().get('/auth/me', { 'x-service-key': key });
    expect(await world.store.revision()).toBe(before);
  });

  it('cannot make a key that is wider, longer-lived or of another project than itself', async () => {
    const owner = await world.owner();
    const place = await world.place(owner);
    const expires_at = new Date(Date.now() + 3_600_000).toISOString();
    const narrow = { name: 'n', scopes: ['admin'], project_id: place.project, expires_at };
    const { key } = (await owner.post('/settings/service-keys', narrow)).data;
    const by = (body: object) => world.client().post('/settings/service-keys', body, { 'x-service-key': key });
    expect((await by(narrow)).status).toBe(201);
    expect((await by({ ...narrow, project_id: undefined })).status).toBe(403);
    const wide = (await owner.post('/settings/service-keys', { name: 'w', scopes: ['admin'], expires_at })).data.key;
    const byWide = (body: object) => world.client().post('/settings/service-keys', body, { 'x-service-key': wide });
    expect((await byWide({ name: 'x', scopes: ['read'], expires_at })).status).toBe(201);
    expect((await byWide({ name: 'x', scopes: ['read'] })).status).toBe(403);
    expect((await byWide({ name: 'x', expires_at })).status).toBe(403);
    expect((await byWide({ name: 'x', scopes: ['read'], expires_at: '2099-01-01T00:00:00Z' })).status).toBe(403);
  });

  it('has no rights over the account when it is narrowed to a project', async () => {
    const owner = await world.owner();
    const place = await world.place(owner);
    const make = async (name: string, project_id?: string) =>
      (await owner.post('/settings/service-keys', { name, project_id })).data;
    const [narrow, other] = [await make('narrow', place.project), await make('other')];
    const headers = { 'x-service-key': narrow.key };
    const by = world.client();
    const passwords = { current_password: 'no matter', new_password: 'a long enough one 7' };
    expect((await by.put('/auth/me', { first_name: 'Eve' }, headers)).status).toBe(403);
    expect((await by.put('/auth/me/password', passwords, headers)).status).toBe(403);
    expect((await by.post('/auth/me/set-initial-password', { password: 'x' }, headers)).status).toBe(403);
    const listed = (await by.get('/settings/service-keys', headers)).data;
    expect(listed.map(({ id }: { id: string }) => id)).toEqual([narrow.id]);
    expect((await by.delete(`/settings/service-keys/${other.id}`, headers)).status).toBe(403);
    expect((await by.delete(`/settings/service-keys/${narrow.id}`, headers)).status).toBe(204);
  });

  it('send their account back as they got it, and change nothing in it that others decide', async () => {
    const user = await world.user();
    const { data: me } = await user.get('/auth/me');
    const changed = await user.put('/auth/me', { ...me, first_name: 'New' });
    expect([changed.status, changed.data.first_name]).toEqual([200, 'New']);
    for (const field of [{ role: 'superadmin' }, { email: 'x@example.test' }, { must_reset_password: true }]) {
      const refused = await user.put('/auth/me', { ...me, ...field });
      expect([refused.status, refused.body.error?.details?.[0]?.field]).toEqual([400, Object.keys(field)[0]]);
    }
  });

  it('is refused when it has expired or is mistyped, and cannot be made in the past', async () => {
    const owner = await world.owner();
    const elsewhere = { name: 'offset', expires_at: '2099-01-01T02:00:00+02:00' };
    expect((await owner.post('/settings/service-keys', elsewhere)).data.expires_at).toBe('2099-01-01T00:00:00.000Z');
    const past = await owner.post('/settings/service-keys', { name: 'x', expires_at: '2020-01-01T00:00:00Z' });
    expect(past.status).toBe(400);
    expect(past.body.error?.details?.[0]?.field).toBe('expires_at');
    for (const key of ['sp_short', `sp_${'a'.repeat(46)}`, ''])
      expect((await world.client().get('/auth/me', { 'x-service-key': key })).status).toBe(401);
  });

  it('belongs to its user: nobody else but a superadmin revokes it', async () => {
    const owner = await world.owner();
    const user = await world.user();
    const admin = await world.user('admin');
    const { id } = (await user.post('/settings/service-keys', { name: 'mine' })).data;
    expect((await admin.delete(`/settings/service-keys/${id}`)).status).toBe(404);
    expect((await owner.get('/settings/service-keys')).data).toEqual([]);
    expect((await owner.delete(`/settings/service-keys/${id}`)).status).toBe(204);
  });
});
