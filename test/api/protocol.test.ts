import { request as httpRequest } from 'node:http';
import type { IncomingMessage } from 'node:http';
import { extname } from 'node:path';
import { buffer } from 'node:stream/consumers';
import { gunzipSync, gzipSync } from 'node:zlib';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { keys } from '../../store/keys.ts';
import { startApi } from '../harness/api.ts';
import type { ApiWorld, Client } from '../harness/api.ts';

let world: ApiWorld;
let owner: Client;

beforeAll(async () => {
  world = await startApi();
  owner = await world.owner();
});
afterAll(async () => {
  await world[Symbol.asyncDispose]();
  expect(world.faults).toEqual([]);
});

let count = 0;
/** None is a part of another one, which a search would find as well. */
const aName = (): string => `number-${(count += 1)}-project`;

describe('SEC-63: every answer', () => {
  it('shows version and request, also when it is an error or empty', async () => {
    const { id } = (await owner.post('/settings/service-keys', { name: 'x' })).data;
    const answers = [
      await owner.get('/projects'),
      await owner.get('/nowhere'),
      await world.client().get('/projects'),
      await owner.delete(`/settings/service-keys/${id}`),
      await owner.post('/projects', '{'),
    ];
    expect(answers.map(({ status }) => status)).toEqual([200, 404, 401, 204, 400]);
    for (const { headers } of answers) {
      expect(headers.get('x-service-version')).toBe('1.2.3');
      expect(headers.get('x-request-id')).toMatch(/^[\w.-]+$/);
      expect(headers.get('x-content-type-options')).toBe('nosniff');
      expect(headers.get('content-security-policy')).toContain("default-src 'none'");
      expect(headers.get('cache-control')).toBe('no-store');
      expect(headers.get('x-powered-by')).toBeNull();
    }
    expect(answers[1]!.body).toEqual({
      success: false,
      error: { code: 'NOT_FOUND', message: 'Route not found', request_id: answers[1]!.headers.get('x-request-id') },
    });
  });

  it('takes over a harmless request id and no other', async () => {
    const taken = await owner.get('/projects', { 'x-request-id': 'my-1' });
    expect(taken.headers.get('x-request-id')).toBe('my-1');
    const refused = await owner.get('/projects', { 'x-request-id': 'a"b c' });
    expect(refused.headers.get('x-request-id')).not.toContain('"');
  });

  it('is 404 for a tenant that does not exist, and shows nothing of one that does', async () => {
    expect((await world.client(owner.token, 'nobody').get('/auth/setup-status')).status).toBe(404);
    await world.store.txn({ if: [], then: [{ put: keys.tenant('second'), value: '{}' }] });
    const second = world.client(undefined, 'second');
    expect((await second.get('/auth/setup-status')).data).toMatchObject({ setup_complete: false });
    const project = (await owner.post('/projects', { name: aName() })).data;
    const stranger = (await second.post('/auth/register', { email: 'x@example.test', password: 'a long enough one' }))
      .data;
    const other = world.client(stranger.token, 'second');
    expect((await other.get(`/projects/${project.id}`)).status).toBe(404);
    expect((await other.get('/projects')).data).toEqual([]);
  });

  it('is 404 for a method that a path does not have, and 401 before anything is shown', async () => {
    expect((await owner.patch('/projects')).status).toBe(404);
    expect((await world.client().get('/projects/not-a-uuid')).status).toBe(401);
    expect((await owner.get('/projects/not-a-uuid')).status).toBe(400);
    expect((await owner.get('/projects/00000000-0000-4000-8000-000000000000')).status).toBe(404);
    const head = await fetch(`${world.url}/default/api/v1/auth/setup-status`, { method: 'HEAD' });
    expect(head.status).toBe(200);
    expect(await head.text()).toBe('');
  });
});

describe('SEC-62: a body', () => {
  const nested = (depth: number): string => `${'{"a":'.repeat(depth)}1${'}'.repeat(depth)}`;

  it.each([
    ['no JSON', '{"name":', {}],
    ['an array', '[]', {}],
    ['text', '"x"', {}],
    ['too deep', nested(40), {}],
    ['__proto__', '{"name":"x","labels":{"__proto__":{}}}', {}],
    ['another type', 'name=x', { 'content-type': 'application/x-www-form-urlencoded' }],
    ['compressed', '{"name":"x"}', { 'content-encoding': 'gzip' }],
    ['an unknown field', '{"name":"x","owner_id":"y"}', {}],
    ['a missing field', '{}', {}],
    ['no body', '', {}],
    ['a wrong type', '{"name":1}', {}],
    ['control characters', '{"name":"a\\u0000b"}', {}],
    ['a space at its end', '{"name":"a "}', {}],
  ])('of %s is refused', async (_, body, headers) => {
    const answer = await owner.post('/projects', body, headers);
    expect(answer.status).toBe(400);
    expect(answer.body.error?.code).toBe('BAD_REQUEST');
  });

  it('may be nested 32 levels deep, and not deeper', async () => {
    const messageOf = async (depth: number) => (await owner.post('/projects', nested(depth))).body.error?.message;
    expect(await messageOf(32)).toBe('name is required');
    expect(await messageOf(33)).toBe('Body must not be nested deeper than 32');
  });

  it('of invalid UTF-8 or more than 1 MiB is refused', async () => {
    const send = async (bytes: Buffer): Promise<number> => {
      const response = await fetch(`${world.url}/default/api/v1/projects`, {
        method: 'POST',
        headers: { authorization: `Bearer ${owner.token}`, 'content-type': 'application/json' },
        body: bytes,
      });
      await response.text();
      return response.status;
    };
    expect(await send(Buffer.from([0x7b, 0x22, 0xff, 0x22, 0x3a, 0x31, 0x7d]))).toBe(400);
    expect(await send(Buffer.from(JSON.stringify({ name: 'x'.repeat(1024 * 1024) })))).toBe(400);
  });

  it('of unknown length that grows beyond 1 MiB is refused', async () => {
    const status = await new Promise<number>((resolve, reject) => {
      const sending = httpRequest(
        `${world.url}/default/api/v1/projects`,
        { method: 'POST', headers: { authorization: `Bearer ${owner.token}`, 'content-type': 'application/json' } },
        (response) => {
          resolve(response.statusCode ?? 0);
          sending.destroy();
        },
      );
      sending.on('error', reject);
      const part = 'x'.repeat(64 * 1024);
      sending.write('"');
      for (let n = 0; n < 20; n += 1) sending.write(part);
    });
    expect(status).toBe(400);
  });

  it('clears labels by null', async () => {
    const { id } = (await owner.post('/projects', { name: aName(), labels: { team: 'a' } })).data;
    expect((await owner.put(`/projects/${id}`, { labels: null })).data.labels).toEqual({});
    expect((await owner.post('/projects', { name: aName(), labels: null })).data.labels).toEqual({});
  });

  it('names every field that is wrong', async () => {
    const answer = await owner.post('/projects', { name: 'x', color: 'red', single_server_mode: 'yes', surprise: 1 });
    const fields = answer.body.error?.details?.map(({ field, reason }) => [field, reason]);
    expect(fields).toContainEqual(['color', expect.any(String)]);
    expect(fields).toContainEqual(['single_server_mode', 'invalid_type']);
    expect(fields).toContainEqual(['surprise', 'unknown_field']);
  });
});

describe('versions', () => {
  it('are shown by ETag and held by If-Match', async () => {
    const made = await owner.post('/projects', { name: aName() });
    const path = `/projects/${made.data.id}`;
    const etag = made.headers.get('etag')!;
    expect(etag).toBe(`"${made.data.resource_version}"`);
    expect((await owner.get(path)).headers.get('etag')).toBe(etag);
    const changed = await owner.put(path, { description: 'one' }, { 'if-match': etag });
    expect(changed.status).toBe(200);
    expect(changed.headers.get('etag')).not.toBe(etag);
    expect((await owner.put(path, { description: 'two' }, { 'if-match': etag })).status).toBe(409);
    expect((await owner.delete(path, { 'if-match': etag })).status).toBe(409);
    expect((await owner.put(path, { description: 'two' }, { 'if-match': '*' })).status).toBe(200);
  });

  it('of an account are held by If-Match, too', async () => {
    const user = await world.user();
    const { etag = '' } = Object.fromEntries((await user.get('/auth/me')).headers);
    expect((await user.put('/auth/me', { first_name: 'One' }, { 'if-match': etag })).status).toBe(200);
    const late = { 'if-match': etag };
    expect((await user.put('/auth/me', { first_name: 'Two' }, late)).status).toBe(409);
    const passwords = { current_password: 'no such one', new_password: 'a long enough one' };
    expect((await user.put('/auth/me/password', passwords, late)).status).toBe(409);
    expect((await user.get('/auth/me')).data.first_name).toBe('One');
  });

  it('of an application are those of its variables', async () => {
    const { project, server } = await world.place(owner);
    const fields = { project_id: project, server_id: server, name: 'web', source_type: 'image', image_url: 'web:1' };
    const made = await owner.post('/applications', fields);
    const path = `/applications/${made.data.id}/env`;
    const etag = made.headers.get('etag')!;
    expect((await owner.get(path)).headers.get('etag')).toBe(etag);
    const changed = await owner.put(path, { A: '1' }, { 'if-match': etag });
    const now = (await owner.get(`/applications/${made.data.id}`)).headers.get('etag');
    expect([changed.status, changed.headers.get('etag'), now === etag]).toEqual([200, now, false]);
    expect((await owner.patch(path, { B: '2' }, { 'if-match': etag })).status).toBe(409);
    expect((await owner.patch(path, { B: '2' }, { 'if-match': now! })).data.env).toEqual({ A: '1', B: '2' });
  });

  it('do not move when nothing changes', async () => {
    const made = (await owner.post('/projects', { name: aName(), color: '#1f6feb' })).data;
    const before = await world.store.revision();
    const again = await owner.put(`/projects/${made.id}`, { color: '#1f6feb' });
    expect(again.data).toEqual(made);
    expect(await world.store.revision()).toBe(before);
  });

  it('lose no change of two that come at once', async () => {
    const { id } = (await owner.post('/projects', { name: aName() })).data;
    const fields = { description: 'd', display_name: 'n', color: '#000000' };
    const answers = await Promise.all(
      Object.entries(fields).map(([field, value]) => owner.put(`/projects/${id}`, { [field]: value })),
    );
    expect(answers.map(({ status }) => status)).toEqual([200, 200, 200]);
    expect((await owner.get(`/projects/${id}`)).data).toMatchObject(fields);
  });
});

describe('an Idempotency-Key', () => {
  it('gets the first answer again for the same body, in whatever order its fields come', async () => {
    const name = aName();
    const headers = { 'idempotency-key': `k-${name}` };
    const first = await owner.post('/projects', { name, color: '#000000' }, headers);
    const again = await owner.post('/projects', { color: '#000000', name }, headers);
    expect(first.status).toBe(201);
    expect(again.status).toBe(201);
    expect(again.body).toEqual(first.body);
    expect(again.headers.get('etag')).toBe(first.headers.get('etag'));
    expect((await owner.get(`/projects?q=${name}`)).data).toHaveLength(1);
  });

  it('gets the version of its object again, also once the record was sealed with another key', async () => {
    const name = aName();
    const headers = { 'idempotency-key': `k-${name}` };
    const first = await owner.post('/projects', { name }, headers);
    const { entries } = await world.store.list({ prefix: keys.idempotency('default', '') });
    const record = entries.toSorted((a, b) => b.modRevision - a.modRevision)[0]!;
    await world.store.txn({ if: [], then: [{ delete: record.key }] });
    const value = JSON.stringify({ ...JSON.parse(record.value), revision: String(record.modRevision) });
    await world.store.txn({ if: [], then: [{ put: record.key, value }] });
    const again = await owner.post('/projects', { name }, headers);
    expect(again.body).toEqual(first.body);
    expect(again.headers.get('etag')).toBe(first.headers.get('etag'));
  });

  it('refuses another body, and is of one user and path', async () => {
    const headers = { 'idempotency-key': 'shared' };
    expect((await owner.post('/projects', { name: aName() }, headers)).status).toBe(201);
    expect((await owner.post('/projects', { name: aName() }, headers)).status).toBe(409);
    const user = await world.user();
    expect((await user.post('/projects', { name: aName() }, headers)).status).toBe(201);
    expect((await owner.post('/settings/service-keys', { name: 'x' }, headers)).status).toBe(201);
  });

  it('makes one object of many requests at once', async () => {
    const name = aName();
    const headers = { 'idempotency-key': `k-${name}` };
    const answers = await Promise.all(Array.from({ length: 8 }, () => owner.post('/projects', { name }, headers)));
    expect(new Set(answers.map(({ data }) => data?.id)).size).toBe(1);
    expect(answers.every(({ status }) => status === 201)).toBe(true);
  });

  it('gives a secret that is shown once again, and stores it sealed', async () => {
    const headers = { 'idempotency-key': 'secret' };
    const first = await owner.post('/settings/service-keys', { name: 'once' }, headers);
    const again = await owner.post('/settings/service-keys', { name: 'once' }, headers);
    expect(again.data).toEqual(first.data);
    const { entries } = await world.store.list(keys.all);
    expect(entries.map(({ value }) => value).join('\n')).not.toContain(first.data.key);
  });

  it('gives a service key no answer that its user, or a wider key of theirs, was given', async () => {
    const headers = { 'idempotency-key': 'narrowed' };
    const first = await owner.post('/settings/service-keys', { name: 'wide' }, headers);
    const limits = { name: 'narrow', scopes: ['admin'], expires_at: '2099-01-01T00:00:00Z' };
    const { key } = (await owner.post('/settings/service-keys', limits)).data;
    const byKey = { ...headers, 'x-service-key': key };
    const again = await world.client().post('/settings/service-keys', { name: 'wide' }, byKey);
    expect(first.status).toBe(201);
    expect(again.status).toBe(403);
  });

  it('must be visible text', async () => {
    expect((await owner.post('/projects', { name: aName() }, { 'idempotency-key': 'a b' })).status).toBe(400);
  });

  it('says nothing to whoever is no longer allowed', async () => {
    const headers = { 'idempotency-key': 'rights' };
    const user = await world.user();
    const made = await user.post('/projects', { name: aName() }, headers);
    expect(made.status).toBe(201);
    await user.post('/auth/logout');
    expect((await user.post('/projects', {}, headers)).status).toBe(401);
  });
});

describe('a list', () => {
  it('is paged without repeating or skipping, in the order that was asked for', async () => {
    const user = await world.user();
    const names = Array.from({ length: 7 }, (_, n) => `paged ${n}`);
    for (const name of names) await user.post('/projects', { name });
    const seen: string[] = [];
    let cursor: string | null = null;
    do {
      const query: string = cursor === null ? '' : `&cursor=${cursor}`;
      const page = await user.get(`/projects?limit=3&sort=name${query}`);
      expect(page.body.meta).toMatchObject({ limit: 3, total: seen.length === 0 ? 7 : 8 });
      seen.push(...page.data.map((it: { name: string }) => it.name));
      cursor = page.body.meta!.next_cursor;
      if (seen.length === 3)
        await user.post('/projects', { name: 'a first one' }).then(({ data }) => user.delete(`/projects/${data.id}`));
    } while (cursor !== null && seen.length < 20);
    expect(seen).toEqual(names);
    const newest = await user.get('/projects?limit=1');
    expect(newest.data[0].name).not.toBe('paged 0');
    const oldest = await user.get('/projects?limit=1&sort=created_at');
    expect(oldest.data[0].name).toBe('paged 0');
  });

  it('finds by text, status and labels', async () => {
    const user = await world.user();
    await user.post('/projects', { name: 'Red apple', labels: { team: 'a' } });
    await user.post('/projects', { name: 'Green pear', labels: { team: 'b', tier: 'x' } });
    const names = async (query: string) =>
      (await user.get(`/projects?sort=name&${query}`)).data.map((it: { name: string }) => it.name);
    expect(await names('q=APPLE')).toEqual(['Red apple']);
    expect(await names('status=active')).toHaveLength(2);
    expect(await names('status=deleting')).toEqual([]);
    expect(await names('labelSelector=team=a')).toEqual(['Red apple']);
    expect(await names('labelSelector=team!=a')).toEqual(['Green pear']);
    expect(await names('labelSelector=tier')).toEqual(['Green pear']);
    expect(await names('labelSelector=!tier,team=a')).toEqual(['Red apple']);
  });

  it.each(['limit=0', 'limit=501', 'limit=x', 'sort=owner_id', 'sort=__proto__', 'cursor=zzz', 'labelSelector=a=b=c'])(
    'refuses %s',
    async (query) => {
      const answer = await owner.get(`/projects?${query}`);
      expect(answer.status).toBe(400);
      expect(answer.body.error?.details?.[0]?.field).toBe(query.split('=')[0]);
    },
  );

  it('shows at once what was written, and to each user what is theirs', async () => {
    const [one, two] = [await world.user(), await world.user()];
    const { id } = (await one.post('/projects', { name: aName() })).data;
    expect((await one.get('/projects')).data.map((it: { id: string }) => it.id)).toEqual([id]);
    expect((await two.get('/projects')).data).toEqual([]);
    expect((await owner.get(`/projects?limit=500`)).data.map((it: { id: string }) => it.id)).toContain(id);
    await one.put(`/projects/${id}`, { description: 'changed' });
    expect((await one.get('/projects')).data[0].description).toBe('changed');
  });
});

describe('a long answer', () => {
  /** The answer as it came through the socket, and what it says. */
  async function sent(path: string, encoding: string): Promise<{ encoding: string | undefined; bytes: Buffer }> {
    const headers = { 'accept-encoding': encoding, authorization: `Bearer ${owner.token ?? ''}` };
    const response = await new Promise<IncomingMessage>((resolve, reject) => {
      httpRequest(`${world.url}${path}`, { headers }, resolve).once('error', reject).end();
    });
    return { encoding: response.headers['content-encoding'], bytes: await buffer(response) };
  }

  it('is compressed for who takes that, and one of an object with its version is not', async () => {
    const description = 'A text that is said again. '.repeat(60);
    let id = '';
    for (let n = 0; n < 12; n += 1) id = (await owner.post('/projects', { name: `long ${n}`, description })).data.id;
    const path = '/default/api/v1/projects?q=long&limit=50';
    const plain = await sent(path, 'identity');
    const packed = await sent(path, 'br, gzip;q=0.8');
    expect([plain.encoding, packed.encoding]).toEqual([undefined, 'gzip']);
    expect(gunzipSync(packed.bytes)).toEqual(plain.bytes);
    expect(packed.bytes.length).toBeLessThan(plain.bytes.length / 5);
    expect((await sent(path, 'gzip;q=0')).encoding).toBeUndefined();
    expect((await sent(`/default/api/v1/projects/${id}`, 'gzip')).encoding).toBeUndefined();
    expect((await sent('/openapi.json', 'gzip')).encoding).toBe('gzip');
  });
});

describe('pages that are of no tenant', () => {
  it('show health, readiness and metrics', async () => {
    const root = await fetch(`${world.url}/`, { redirect: 'manual' });
    expect([root.status, root.headers.get('location')]).toEqual([302, 'console']);
    for (const path of ['/healthz', '/readyz']) expect((await fetch(`${world.url}${path}`)).status, path).toBe(200);
    const metrics = await (await fetch(`${world.url}/metrics`)).text();
    expect(metrics).toContain('setpoint_http_requests_total{route="POST /projects",status="201"}');
    const missing = await fetch(`${world.url}/nothing/here`);
    expect(missing.status).toBe(404);
    expect(await missing.json()).toMatchObject({ success: false, error: { code: 'NOT_FOUND' } });
  });

  it('serve the console as a page whose files are named by their content, and as nothing else', async () => {
    const answer = await fetch(`${world.url}/console`);
    expect([answer.status, answer.headers.get('cache-control')]).toEqual([200, 'no-cache']);
    const page = await answer.text();
    const names = [...page.matchAll(/(?:src|href)="(console\/[^"]+)"/g)].map(([, name = '']) => name);
    expect(names.map((name) => extname(name)).toSorted()).toEqual(['.css', '.js']);
    for (const name of names) {
      const file = await fetch(`${world.url}/${name}`);
      expect(file.status, name).toBe(200);
      expect(file.headers.get('cache-control'), name).toContain('immutable');
      expect(file.headers.get('content-encoding'), name).toBe('gzip');
    }
    const beside = await fetch(`${world.url}/console/`, { redirect: 'manual' });
    expect([beside.status, beside.headers.get('location')]).toEqual([302, '../console']);
    for (const name of ['api-types.d.ts', 'main.tsx', 'index.html/'])
      expect((await fetch(`${world.url}/console/${name}`)).status, name).toBe(404);
  });

  it('allow the page of the console its own script, and no other that is written into it', async () => {
    const policy = (await fetch(`${world.url}/console`)).headers.get('content-security-policy') ?? '';
    expect(policy).toMatch(/script-src 'self' 'sha256-[^']+';/);
    expect(policy).not.toContain('unsafe');
  });

  it('document every endpoint, by the schemas that validate', async () => {
    const document = (await (await fetch(`${world.url}/openapi.json`)).json()) as {
      openapi: string;
      paths: Record<
        string,
        Record<string, { requestBody?: { content: Record<string, { schema: { required?: string[] } }> } }>
      >;
      components: { schemas: Record<string, unknown> };
    };
    expect(document.openapi).toBe('3.1.0');
    expect(Object.keys(document.paths)).toContain('/api/v1/applications/{id}/deploy');
    expect(Object.keys(document.components.schemas)).toEqual(
      expect.arrayContaining(['Application', 'Project', 'Error']),
    );
    const create = document.paths['/api/v1/projects']!['post']!.requestBody!.content['application/json']!.schema;
    expect(create.required).toEqual(['name']);
  });

  it('show the documentation as a page with files of its own alone, in a bounded number of bytes', async () => {
    const answer = await fetch(`${world.url}/docs`);
    const page = await answer.text();
    const policy = answer.headers.get('content-security-policy') ?? '';
    expect(policy).toContain("default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'");
    expect(policy).not.toContain('unsafe');
    expect(page).not.toMatch(/https?:|<script>|<style/);
    const names = [...page.matchAll(/(?:src|href)="(docs\/[^"]+)"/g)].map(([, name = '']) => name);
    expect(names.map((name) => extname(name)).toSorted()).toEqual(['.css', '.js', '.js']);
    let bytes = 0;
    for (const name of names) {
      const file = await fetch(`${world.url}/${name}`);
      expect([file.status, file.headers.get('content-encoding')], name).toEqual([200, 'gzip']);
      bytes += gzipSync(Buffer.from(await file.arrayBuffer())).length;
    }
    expect(bytes).toBeLessThan(520_000);
    const beside = await fetch(`${world.url}/docs/`, { redirect: 'manual' });
    expect([beside.status, beside.headers.get('location')]).toEqual([302, '../docs']);
  });
});
