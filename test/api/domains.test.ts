import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { Domain } from '../../store/kinds/domain.ts';
import { startApi } from '../harness/api.ts';
import type { ApiWorld, Client } from '../harness/api.ts';

let world: ApiWorld;
let owner: Client;
let place: { project: string; environment: string; server: string };

beforeAll(async () => {
  world = await startApi();
  owner = await world.owner();
  place = await world.place(owner);
});
afterAll(async () => {
  await world[Symbol.asyncDispose]();
  expect(world.faults).toEqual([]);
});

let count = 0;
function create(domains: unknown, more: Record<string, unknown> = {}) {
  return owner.post('/applications', {
    project_id: place.project,
    environment_id: place.environment,
    server_id: place.server,
    name: `app ${(count += 1)}`,
    source_type: 'image',
    image_url: 'example/web:1',
    domains,
    ...more,
  });
}

it('shows a host in ASCII and lower case, and a path without its last slash', async () => {
  const made = await create([{ host: 'Bücher.Example.test.', path: '/api/' }]);
  expect(made.status).toBe(201);
  expect(made.data.domains).toMatchObject([{ host: 'xn--bcher-kva.example.test', path: '/api', tls: 'on' }]);
});

it.each([
  { host: 'example' },
  { host: '*.example.test' },
  { host: '192.0.2.1' },
  { host: '[::1]' },
  { host: 'a.example.test:80' },
  { host: 'https://a.example.test' },
  { host: 'a_b.example.test' },
  { host: `${'a'.repeat(64)}.test` },
  { host: 'a..test' },
  { host: '../../etc/passwd.test' },
  { host: '{env.HOME}.test' },
  { host: 'a.test', path: 'api' },
  { host: 'a.test', path: '/../x' },
  { host: 'a.test', path: '/{file./setpoint/caddy.json}' },
  { host: 'a.test', path: '/a*' },
  { host: 'a.test', headers: { set: { 'X-Leak': '{file./etc/passwd}' } } },
  { host: 'a.test', headers: { set: { 'X-Split': 'a\r\nSet-Cookie: b' } } },
  { host: 'a.test', headers: { set: { 'Transfer-Encoding': 'chunked' } } },
  { host: 'a.test', headers: { remove: ['a b'] } },
  { host: 'a.test', redirect_to: 'javascript:alert(1)' },
  { host: 'a.test', redirect_to: 'https://user:pass@b.test' },
  { host: 'a.test', redirect_to: 'https://b.test/{env.PATH}' },
  { host: 'a.test', basic_auth: [{ username: 'ann' }] },
  { host: 'a.test', basic_auth: [{ username: 'a:b', password: 'long enough' }] },
  { host: 'a.test', basic_auth: [{ username: '{env.A}', password: 'long enough' }] },
  { host: 'a.test', max_body_bytes: 0 },
  { host: 'a.test', timeout_seconds: 1e9 },
  { host: 'a.test', tls: 'maybe' },
  { host: 'a.test', unknown: true },
])('refuses %j', async (domain) => {
  expect((await create([domain])).status).toBe(400);
});

it('gives an address to one application, and frees it when that no longer has it', async () => {
  const first = await create([{ host: 'once.example.test' }]);
  expect((await create([{ host: 'ONCE.example.test', path: '/' }])).status).toBe(409);
  expect((await create([{ host: 'once.example.test', path: '/api' }])).status).toBe(201);
  expect((await create([{ host: 'twice.example.test' }, { host: 'twice.example.test' }])).status).toBe(400);
  expect((await owner.put(`/applications/${first.data.id}`, { domains: null })).data.domains).toEqual([]);
  expect((await create([{ host: 'once.example.test' }])).status).toBe(201);
});

it('gives a host to the project that has it first', async () => {
  const first = await create([{ host: 'owned.example.test' }]);
  const project = (await owner.post('/projects', { name: 'another' })).data.id;
  const environment_id = (await owner.post(`/projects/${project}/environments`, { name: 'live' })).data.id;
  const elsewhere = { project_id: project, environment_id };
  const refused = await create([{ host: 'owned.example.test', path: '/login' }], elsewhere);
  expect(refused.status).toBe(409);
  expect(JSON.stringify(refused.body)).toContain('belongs to one project');
  expect((await create([{ host: 'owned.example.test', path: '/api' }])).status).toBe(201);
  expect((await owner.put(`/applications/${first.data.id}`, { domains: null })).status).toBe(200);
  expect((await create([{ host: 'owned.example.test' }], elsewhere)).status).toBe(409);
});

it('encrypts all paths of a host in one way', async () => {
  const host = 'sealed.example.test';
  const mixed = [{ host }, { host, path: '/in', tls: 'internal' }];
  expect((await create(mixed)).status).toBe(409);
  const made = await create([{ host }, { host, path: '/clear', tls: 'off' }]);
  expect(made.status).toBe(201);
  const refused = await create([{ host, path: '/z', tls: 'internal' }]);
  expect(refused.status).toBe(409);
  expect(JSON.stringify(refused.body)).toContain('tls');
  expect((await create([{ host, path: '/z' }])).status).toBe(201);
});

it('leaves an application as it is whose host another project has, and lets it be changed', async () => {
  const { data } = await create([{ host: 'shared.example.test', path: '/a', tls: 'internal' }]);
  const project = (await owner.post('/projects', { name: 'of before' })).data.id;
  const environment_id = (await owner.post(`/projects/${project}/environments`, { name: 'live' })).data.id;
  const second = (await create([], { project_id: project, environment_id })).data;
  // as an earlier release took it
  const stored = await world.repo.get('application', second.id);
  const unit = world.repo.begin();
  unit.change(stored!, (draft) => {
    draft.domains = [{ ...Domain.parse({ host: 'shared.example.test', path: '/b' }) }];
  });
  await unit.commit();
  await world.settled();
  const path = `/applications/${second.id}`;
  const { domains } = (await owner.get(path)).data;
  expect((await owner.put(path, { domains: [...domains, { host: 'shared.example.test', path: '/c' }] })).status).toBe(
    200,
  );
  expect((await owner.get(`/applications/${data.id}`)).data.domains).toHaveLength(1);
});

it('refuses certificates of an authority that cannot be read', async () => {
  const acme_ca = `-----BEGIN CERTIFICATE-----\n${'QUJD'.repeat(20)}\n-----END CERTIFICATE-----\n`;
  const refused = await owner.put(`/servers/${place.server}`, { ingress: { acme_ca } });
  expect(refused.status).toBe(400);
  expect(JSON.stringify(refused.body)).toContain('can be read');
});

it('shows no password, and keeps it where a user is sent without one', async () => {
  const basic_auth = [{ username: 'ann', password: 'correct horse' }];
  const made = await create([{ host: 'closed.example.test', basic_auth }]);
  expect(JSON.stringify(made.body)).not.toMatch(/argon2|correct horse/);
  const { id, domains } = made.data;
  const stored = async () =>
    (await world.repo.get('application', id))?.desired.domains[0]?.basic_auth[0]?.password_hash;
  const before = await stored();
  expect(before).toMatch(/^\$argon2id\$/);
  expect((await owner.put(`/applications/${id}`, { domains })).status).toBe(200);
  expect(await stored()).toBe(before);
});

it.each([
  [['10.0.0.0/8', '192.0.2.7', 'fd00::/8'], 200],
  [['10.0.0.0/33'], 400],
  [['proxy.example.test'], 400],
  [['0.0.0.0/0'], 400],
  [['::/00'], 400],
])('trusts the proxies %j: %i', async (trusted_proxies, status) => {
  const answer = await owner.put(`/servers/${place.server}`, { ingress: { trusted_proxies } });
  expect(answer.status).toBe(status);
  if (status === 200) expect(answer.data.ingress.trusted_proxies).toEqual(trusted_proxies);
  await owner.put(`/servers/${place.server}`, { ingress: null });
});

describe('a wildcard domain', () => {
  it('gives every web application with a port an address, and reserves the names below it', async () => {
    const server = `/servers/${place.server}`;
    expect((await owner.put(server, { ingress: { wildcard_domain: 'apps.example.test' } })).data.ingress).toEqual({
      enabled: true,
      http_port: 80,
      https_port: 443,
      acme_directory: null,
      acme_email: null,
      acme_ca: null,
      trusted_proxies: [],
      wildcard_domain: 'apps.example.test',
    });
    const { data } = await create([], { exposed_port: 8080 });
    expect(data.urls).toEqual([`https://${data.internal_id}.apps.example.test/`]);
    const site = (await create([], { exposed_port: 8080, app_type: 'static' })).data;
    expect(site.urls).toEqual([`https://${site.internal_id}.apps.example.test/`]);
    expect((await create([], { app_type: 'worker' })).data.urls).toEqual([]);
    expect((await create([{ host: 'other.apps.example.test' }])).status).toBe(400);
    expect((await create([{ host: 'a.b.test', tls: 'off' }])).data.urls).toEqual(['http://a.b.test/']);
    expect((await owner.put(server, { ingress: { wildcard_domain: 'b.test' } })).status).toBe(409);
    // it has these names again once it is on
    expect((await owner.put(server, { ingress: { enabled: false } })).status).toBe(200);
    expect((await create([{ host: 'other.apps.example.test' }])).status).toBe(400);
    expect((await owner.put(server, { ingress: null })).data.ingress).toBeNull();
  });
});
