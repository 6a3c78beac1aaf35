import { randomUUID } from 'node:crypto';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { chainPending } from '../../controllers/audit/chain.ts';
import { unavailable } from '../../store/errors.ts';
import { keys } from '../../store/keys.ts';
import { password, startApi } from '../harness/api.ts';
import type { ApiWorld, Client } from '../harness/api.ts';
import { aRecord, chainOf } from '../harness/audit.ts';
import { FakeClock } from '../harness/fake-clock.ts';
import { desiredState } from '../harness/states.ts';

let world: ApiWorld;
let owner: Client;

beforeEach(async () => {
  world = await startApi();
  owner = await world.owner();
});
afterEach(async () => {
  expect(world.faults).toEqual([]);
  await world[Symbol.asyncDispose]();
});

interface Entry {
  id: string;
  seq: number | null;
  route: string;
  result: string;
  objects: { kind: string; id: string; name: string | null; action: string | null; fields: string[] }[];
  [field: string]: unknown;
}

async function log(query = '', by = owner): Promise<Entry[]> {
  const answer = await by.get(`/audit?limit=500${query}`);
  expect(answer.status).toBe(200);
  return answer.data;
}
const chain = () => chainPending(world.store, 'default', [], AbortSignal.timeout(10_000));
const newest = async (): Promise<Entry> => (await log())[0]!;

async function anApplication(fields: object = {}): Promise<{ id: string; project: string }> {
  const { project, server } = await world.place(owner);
  const { status, data } = await owner.post('/applications', {
    project_id: project,
    server_id: server,
    name: `app-${randomUUID().slice(0, 8)}`,
    source_type: 'image',
    image_url: 'web:1',
    ...fields,
  });
  expect(status).toBe(201);
  return { id: data.id, project };
}

describe('SEC-61: a change', () => {
  it('is recorded with who, by what, from where, as what, and the names of the fields', async () => {
    const { id, project } = await anApplication();
    const changed = await owner.put(
      `/applications/${id}`,
      { replicas: 3, env: { DATABASE_PASSWORD: 'open sesame' } },
      { 'x-request-id': 'the-request' },
    );
    expect(changed.status).toBe(200);
    const me = (await owner.get('/auth/me')).data;
    expect(await newest()).toMatchObject({
      seq: null,
      route: 'PUT /applications/:id',
      result: 'ok',
      user_id: me.id,
      email: 'owner@example.test',
      key_id: null,
      session_id: expect.any(String),
      source: expect.stringContaining('127.0.0.1'),
      request_id: 'the-request',
      project_id: project,
      role: 'superadmin',
      objects: [{ kind: 'application', id, action: 'change', fields: ['config.env.DATABASE_PASSWORD', 'replicas'] }],
      omitted: 0,
      count: null,
    });
  });

  it('that creates and one that deletes say so, with the names of the objects', async () => {
    const project = (await owner.post('/projects', { name: 'shop' })).data;
    expect(await newest()).toMatchObject({
      route: 'POST /projects',
      project_id: project.id,
      objects: [
        { kind: 'project', id: project.id, name: 'shop', action: 'create' },
        { kind: 'environment', action: 'create' },
      ],
    });
    await owner.delete(`/projects/${project.id}`);
    expect(await newest()).toMatchObject({
      objects: [{ kind: 'project', name: 'shop', action: 'delete', fields: [] }],
    });
  });

  it('by a service key names the key', async () => {
    const key = (await owner.post('/settings/service-keys', { name: 'ci' })).data;
    const headers = { 'x-service-key': key.key };
    await world.client().post('/projects', { name: 'by-key' }, headers);
    expect(await newest()).toMatchObject({ key_id: key.id, session_id: null, email: 'owner@example.test' });
  });

  it('that changes nothing is not recorded', async () => {
    const { id } = await anApplication({ replicas: 2 });
    const before = await log();
    expect((await owner.put(`/applications/${id}`, { replicas: 2 })).status).toBe(200);
    expect(await log()).toEqual(before);
  });

  it('that is refused by a guard is not recorded, and one that is tried again is recorded once', async () => {
    const { id } = await anApplication();
    const before = (await log()).length;
    const stale = await owner.put(`/applications/${id}`, { replicas: 2 }, { 'if-match': '"1"' });
    expect(stale.status).toBe(409);
    expect(await log()).toHaveLength(before);
    // somebody else is always faster, once
    const txn = world.store.txn.bind(world.store);
    let raced = false;
    world.store.txn = async (it) => {
      if (
        !raced &&
        it.then.some((write) => 'put' in write && write.put === keys.desired('default', 'application', id))
      ) {
        raced = true;
        await world.repo.change('application', id, (draft) => void (draft.app_type = 'worker'));
      }
      return txn(it);
    };
    expect((await owner.put(`/applications/${id}`, { replicas: 2 })).status).toBe(200);
    world.store.txn = txn;
    expect(raced).toBe(true);
    expect(await log()).toHaveLength(before + 1);
  });

  it('that is sent again with its Idempotency-Key is recorded once', async () => {
    const headers = { 'idempotency-key': 'once' };
    const first = await owner.post('/projects', { name: 'shop' }, headers);
    const before = (await log()).length;
    const second = await owner.post('/projects', { name: 'shop' }, headers);
    expect(second.data.id).toBe(first.data.id);
    expect(await log()).toHaveLength(before);
  });

  it('takes no further transaction, and writers of different objects do not meet', async () => {
    const apps = await Promise.all(Array.from({ length: 8 }, () => anApplication()));
    const before = await world.store.revision();
    const answers = await Promise.all(apps.map(({ id }, n) => owner.put(`/applications/${id}`, { replicas: n + 2 })));
    expect(answers.map(({ status }) => status)).toEqual(Array(8).fill(200));
    expect(await world.store.revision()).toBe(before + 8);
  });

  it('to many objects names some of them and counts the others', async () => {
    const me = (await owner.get('/auth/me')).data;
    for (let n = 0; n < 25; n += 1)
      await world.create('notification', randomUUID(), {
        user_id: me.id,
        type: 'deployment',
        title: 't',
        message: 'm',
        read: false,
        severity: 'info',
        created_at: new Date().toISOString(),
      } as never);
    expect((await owner.post('/notifications/read')).data).toEqual({ marked: 25 });
    const entry = await newest();
    expect(entry).toMatchObject({ route: 'POST /notifications/read', omitted: 5 });
    expect(entry.objects).toHaveLength(20);
  });

  it('of sessions and passwords is recorded with the account, also where nobody was logged in', async () => {
    const user = await world.user('user', 'person@example.test');
    expect(await newest()).toMatchObject({
      route: 'POST /auth/login',
      result: 'ok',
      user_id: user.id,
      email: 'person@example.test',
      session_id: expect.any(String),
      role: null,
    });
    await user.put('/auth/me/password', { current_password: password, new_password: 'another horse battery' });
    expect(await newest()).toMatchObject({
      route: 'PUT /auth/me/password',
      objects: [{ kind: 'user', id: user.id, fields: ['password_hash'] }],
    });
    await user.post('/auth/logout');
    expect(await newest()).toMatchObject({
      route: 'POST /auth/logout',
      user_id: user.id,
      objects: [{ kind: 'session', action: 'delete' }],
    });
  });
});

describe('what is turned away', () => {
  it('is recorded for a login that failed, with the account if there is one and never what was typed', async () => {
    const user = await world.user('user', 'person@example.test');
    await world.client().post('/auth/login', { email: 'Person@example.test', password: 'wrong' });
    expect(await newest()).toMatchObject({
      route: 'POST /auth/login',
      result: 'failed',
      user_id: null,
      objects: [{ kind: 'user', id: user.id, name: 'person@example.test', action: null }],
    });
    await world.client().post('/auth/login', { email: 'my-secret-password', password: 'x' });
    expect(await newest()).toMatchObject({ result: 'failed', objects: [] });
    expect(await everything()).not.toContain('my-secret-password');
  });

  it('is recorded for a caller who may not, and not for one without a credential', async () => {
    const { id, project } = await anApplication();
    const other = await world.user();
    const before = (await log()).length;
    expect((await world.client().delete(`/applications/${id}`)).status).toBe(401);
    expect(await log()).toHaveLength(before);
    expect((await other.delete(`/applications/${id}`)).status).toBe(403);
    expect(await newest()).toMatchObject({
      route: 'DELETE /applications/:id',
      result: 'refused',
      user_id: other.id,
      project_id: project,
      objects: [{ kind: 'application', id, action: null }],
    });
  });

  it('is recorded for a caller whose password was wrong', async () => {
    const user = await world.user();
    await user.put('/auth/me/password', { current_password: 'wrong', new_password: 'another horse battery' });
    expect(await newest()).toMatchObject({ route: 'PUT /auth/me/password', result: 'failed', user_id: user.id });
  });

  it('is not served, and not an error, while the store takes no records', async () => {
    const { id } = await anApplication();
    const other = await world.user();
    await world.settled();
    const txn = world.store.txn.bind(world.store);
    world.store.txn = async () => Promise.reject(unavailable('it is away'));
    expect((await other.delete(`/applications/${id}`)).status).toBe(403);
    world.store.txn = txn;
  });
});

describe('what strangers make happen', () => {
  it('is recorded without the address that they typed, and counted after the first', async () => {
    const before = (await log()).length;
    expect((await world.client().post('/auth/send-code', { email: 'stranger@example.test' })).status).toBe(200);
    const [entry] = await log();
    expect(entry).toMatchObject({ route: 'POST /auth/send-code', user_id: null, objects: [{ kind: 'login_code' }] });
    expect(await log()).toHaveLength(before + 1);
    expect(await everything()).not.toContain('stranger@');
  });
});

describe('somebody who is turned away again and again', () => {
  it('makes the store write a bounded number of records', async () => {
    const clock = new FakeClock();
    await world[Symbol.asyncDispose]();
    world = await startApi({ clock });
    const first = await world.owner();
    const other = await world.user();
    const servers = Array.from({ length: 120 }, () => randomUUID());
    for (const id of servers)
      await world.create(
        'server',
        id,
        desiredState('server', {
          name: `server-${id.slice(0, 8)}`,
        }),
      );
    for (const id of servers) for (let n = 0; n < 2; n += 1) await other.delete(`/servers/${id}`);
    const refused = async (): Promise<Entry[]> => (await first.get('/audit?limit=500&result=refused')).data;
    expect(await refused()).toHaveLength(100);
    await clock.advance(16 * 60_000);
    await world.settled();
    const all = await refused();
    expect(all).toHaveLength(201);
    expect(all.filter(({ route }) => route === '*')).toMatchObject([{ count: 40 }]);
    expect(all.filter(({ count }) => count === 1)).toHaveLength(100);
  });
});

describe('SEC-61: a secret', () => {
  it('that is read is recorded before it is given, and its masked form is not', async () => {
    const { id, project } = await anApplication({ env: { TOKEN: 'open sesame' } });
    expect((await owner.get(`/applications/${id}/env`)).data.env).toEqual({ TOKEN: 'open sesame' });
    expect(await newest()).toMatchObject({
      route: 'GET /applications/:id/env',
      result: 'ok',
      project_id: project,
      objects: [{ kind: 'application', id, action: 'read' }],
    });
    const before = (await log()).length;
    await owner.get(`/applications/${id}`);
    expect(await log()).toHaveLength(before);
  });

  it('is not given while the store cannot take the record', async () => {
    const { id } = await anApplication({ env: { TOKEN: 'open sesame' } });
    await world.settled();
    const txn = world.store.txn.bind(world.store);
    world.store.txn = async () => Promise.reject(unavailable('it is away'));
    const answers = [await owner.get(`/applications/${id}/env`), await owner.patch(`/applications/${id}/env`, {})];
    world.store.txn = txn;
    expect(answers.map(({ status }) => status)).toEqual([503, 503]);
    expect(JSON.stringify(answers)).not.toContain('open sesame');
  });

  it('is in no record', async () => {
    const secret = 'planted-0451';
    const { id } = await anApplication({ env: { [`NAME_OF_${'X'.repeat(8)}`]: secret } });
    await owner.put(`/applications/${id}/env`, { A: `${secret}-a`, B: `${secret}-b` });
    await owner.patch(`/applications/${id}/env`, { A: null, C: `${secret}-c` });
    const key = (await owner.post('/settings/service-keys', { name: 'ci' })).data.key as string;
    const server = (await owner.post('/servers', { name: 'one' })).data;
    const user = await world.user();
    await user.put('/auth/me/password', { current_password: password, new_password: `${secret}-password` });
    await world.client().post('/auth/login', { email: 'a@b.test', password: secret });
    await user.delete(`/applications/${id}`);
    await owner.get(`/applications/${id}?token=${secret}`);
    await chain();
    const text = await everything();
    expect(text).toContain('config.env.NAME_OF_XXXXXXXX');
    for (const planted of [secret, key, owner.token!, user.token!, password, '$argon2id', '$sealed'])
      expect(text).not.toContain(planted);
    for (const value of Object.values(server))
      if (typeof value === 'string' && value.length > 40) expect(text).not.toContain(value);
  });
});

/** All of the log, as it lies in the store. */
async function everything(): Promise<string> {
  const { prefix } = keys.ofTenant('default');
  return JSON.stringify((await world.store.list({ prefix: `${prefix}a/` })).entries.map(({ value }) => value));
}

describe('the log', () => {
  it('is read page by page, newest first, without a gap or a double while it is chained', async () => {
    for (let n = 0; n < 30; n += 1) await owner.post('/projects', { name: `p-${n}` });
    await chain();
    for (let n = 30; n < 50; n += 1) await owner.post('/projects', { name: `p-${n}` });
    const expected = (await log()).map(({ id }) => id);
    for (const chainedAfter of [1, 2, 3]) {
      await owner.post('/projects', { name: `later-${chainedAfter}` });
      const seen: string[] = [];
      let cursor: string | null = '';
      for (let page = 1; cursor !== null; page += 1) {
        if (page === chainedAfter) await chain();
        const answer = await owner.get(`/audit?limit=7${cursor === '' ? '' : `&cursor=${cursor}`}`);
        expect(answer.data.length).toBeLessThanOrEqual(7);
        seen.push(...answer.data.map(({ id }: Entry) => id));
        cursor = answer.body.meta!.next_cursor;
      }
      expect(seen.slice(chainedAfter)).toEqual(expected);
    }
    expect((await owner.get('/audit?cursor=bm9uZQ')).status).toBe(400);
  });

  it('is filtered by user, key, route, kind, id, project, time and result', async () => {
    const { id, project } = await anApplication();
    const key = (await owner.post('/settings/service-keys', { name: 'ci' })).data;
    await world.client().put(`/applications/${id}`, { replicas: 2 }, { 'x-service-key': key.key });
    const other = await world.user('user', 'other@example.test');
    await other.delete(`/applications/${id}`);
    for (const step of [async () => undefined, chain]) {
      await step();
      const routes = async (query: string) => (await log(query)).map(({ route }) => route);
      expect(await routes(`&user=${other.id}`)).toEqual(['DELETE /applications/:id', 'POST /auth/login']);
      expect(await routes('&user=Other@example.test')).toHaveLength(2);
      expect(await routes(`&key=${key.id}`)).toEqual(['PUT /applications/:id']);
      expect(await routes('&route=POST%20/auth/login')).toEqual(['POST /auth/login']);
      expect(await routes(`&kind=application&id=${id}`)).toHaveLength(3);
      expect(await routes(`&id=${project}`)).toHaveLength(4);
      expect(await routes('&kind=service_key')).toEqual(['POST /settings/service-keys']);
      expect(await routes('&result=refused')).toEqual(['DELETE /applications/:id']);
      expect(await routes(`&projectId=${project}`)).toHaveLength(4);
      expect(await routes(`&since=${new Date(Date.now() + 1000).toISOString()}`)).toEqual([]);
      expect(await routes(`&until=${new Date(Date.now() - 3_600_000).toISOString()}`)).toEqual([]);
    }
    expect((await owner.get('/audit?since=yesterday')).status).toBe(400);
  });

  it('goes on by its cursor where a filter finds nothing for long', async () => {
    await owner.post('/projects', { name: 'needle' });
    await chain();
    const record = aRecord('default');
    for (let first = 100; first < 5000; first += 50)
      await world.store.txn({
        if: [],
        then: Array.from({ length: 50 }, (_, at) => {
          const seq = first + at;
          const value = JSON.stringify({ v: 1, seq, prev: '', hash: '', revision: 10_000 + seq, record });
          return { put: keys.auditChained('default', seq), value };
        }),
      });
    const found: Entry[] = [];
    let pages = 0;
    for (let cursor: string | null = ''; cursor !== null; pages += 1) {
      const answer = await owner.get(`/audit?route=POST%20/projects${cursor === '' ? '' : `&cursor=${cursor}`}`);
      found.push(...answer.data);
      cursor = answer.body.meta!.next_cursor;
    }
    expect(found).toMatchObject([{ objects: [{ name: 'needle' }, {}] }]);
    expect(pages).toBe(3);
  });

  it('is for administrators, and in parts for those who administer a project', async () => {
    const user = await world.user();
    const mine = (await user.post('/projects', { name: 'mine' })).data;
    const other = (await owner.post('/projects', { name: 'other' })).data;
    const stranger = await world.user();
    expect((await stranger.get('/audit')).status).toBe(403);
    expect((await user.get('/audit')).status).toBe(403);
    expect((await user.get(`/audit?projectId=${other.id}`)).status).toBe(403);
    expect((await user.get('/audit/verify')).status).toBe(403);
    expect(await log(`&projectId=${mine.id}`, user)).toMatchObject([{ route: 'POST /projects', project_id: mine.id }]);
    const admin = await world.user('admin');
    expect((await log('', admin)).length).toBeGreaterThan(5);
    expect((await admin.get('/audit/verify')).status).toBe(200);
    const reader = (await owner.post('/settings/service-keys', { name: 'r', scopes: ['read'] })).data.key;
    expect((await world.client().get('/audit', { 'x-service-key': reader })).status).toBe(403);
  });

  it('is verified, and shows where it was tampered with', async () => {
    for (let n = 0; n < 5; n += 1) await owner.post('/projects', { name: `p-${n}` });
    await chain();
    const good = (await owner.get('/audit/verify')).data;
    expect(good).toMatchObject({ ok: true, count: 6, head: { seq: 6 }, anchor: { seq: 0 }, broken: null });
    const query = `?seq=${good.head.seq}&hash=${good.head.hash}`;
    expect((await owner.get(`/audit/verify${query}`)).data).toMatchObject({ ok: true });
    expect((await owner.get('/audit/verify?seq=3')).status).toBe(400);
    const [, , third] = await chainOf(world.store, 'default');
    const forged = { ...third, record: { ...third!.record, source: '192.0.2.1' } };
    await world.store.txn({ if: [], then: [{ put: keys.auditChained('default', 3), value: JSON.stringify(forged) }] });
    expect((await owner.get('/audit/verify')).data).toEqual({
      ok: false,
      count: 2,
      head: null,
      anchor: null,
      broken: { seq: 3, reason: 'The record was changed' },
    });
  });

  it('is not kept in memory', async () => {
    await owner.post('/projects', { name: 'one' });
    await chain();
    await owner.post('/projects', { name: 'two' });
    await world.settled();
    expect(world.mirror.keysUnder(`${keys.ofTenant('default').prefix}a/`)).toEqual([]);
    expect(world.mirror.key(keys.auditHead('default'))).toBeUndefined();
  });
});
