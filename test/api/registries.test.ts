import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { RegistryLogin } from '../../api/ground/registry-login.ts';
import { logInToRegistry } from '../../network/registry-login.ts';
import { startApi } from '../harness/api.ts';
import type { Answer, ApiWorld, Client } from '../harness/api.ts';
import { entriesOf } from '../harness/leftover-keys.ts';
import { privateRegistry } from '../harness/private-registry.ts';
import type { PrivateRegistry } from '../harness/private-registry.ts';

const unlimited = { perMinute: 0, burst: 1 };
const path = '/settings/registries';

let real: PrivateRegistry;
let world: ApiWorld;
let owner: Client;
let place: Awaited<ReturnType<ApiWorld['place']>>;
const asked: RegistryLogin[] = [];

beforeAll(async () => {
  real = await privateRegistry();
  world = await startApi({
    config: { rateLimit: unlimited, heavyRateLimit: unlimited },
    logLevel: 'trace',
    registryLogin: (login, signal) => {
      asked.push(login);
      return logInToRegistry(login, signal);
    },
  });
  owner = await world.owner();
  place = await world.place(owner);
  await owner.put('/settings', { registries: ['docker.io', real.address] });
});
afterAll(async () => {
  await world[Symbol.asyncDispose]();
  await real[Symbol.asyncDispose]();
  expect(world.faults).toEqual([]);
});

let count = 0;
const aName = (): string => `name-${(count += 1)}`;
const detailOf = ({ body }: Answer) => body.error?.details?.[0];
const create = (fields: object = {}): Promise<Answer> => {
  const { address, username, password } = real;
  return owner.post(path, { name: aName(), address, username, password, ...fields });
};
const anApplication = (fields: object): Promise<Answer> =>
  owner.post('/applications', {
    project_id: place.project,
    server_id: place.server,
    name: aName(),
    source_type: 'image',
    image_url: `${real.address}/team/web:1`,
    ...fields,
  });

describe('a registry', () => {
  it('is kept once the login to the real one has succeeded, and never shows its password', async () => {
    const made = await create();
    expect(made.status).toBe(201);
    expect(made.data).toMatchObject({ address: real.address, username: real.username, status: 'unused' });
    expect(JSON.stringify(made.body)).not.toContain(real.password);
    const tested = await owner.post(`${path}/${made.data.id}/test`);
    expect(tested.data).toEqual({ ok: true, reason: null, message: expect.stringContaining('succeeded') });
  });

  it.each([
    [{ password: 'not-this-one' }, 'password', 'wrong_credentials'],
    [{ address: 'registry.example.com' }, 'address', 'not_allowed'],
    [{ address: 'plain' }, 'address', undefined],
    [{ username: 'a:b' }, 'username', undefined],
  ])('is refused with the field: %j', async (fields, field, reason) => {
    const refused = await create(fields);
    expect([refused.status, detailOf(refused)?.field]).toEqual([400, field]);
    if (reason !== undefined) expect(detailOf(refused)?.reason).toBe(reason);
  });

  it('is kept without a login where that is asked for, and its test says what is wrong', async () => {
    const { status, data } = await create({ password: 'not-this-one', untested: true });
    expect(status).toBe(201);
    const tested = await owner.post(`${path}/${data.id}/test`);
    expect(tested.data).toMatchObject({ ok: false, reason: 'wrong_credentials' });
    expect(JSON.stringify(tested.body)).not.toContain('not-this-one');
    expect((await owner.put(`${path}/${data.id}`, { password: real.password })).status).toBe(200);
    expect((await owner.post(`${path}/${data.id}/test`)).data.ok).toBe(true);
  });

  it('SEC-14 is bound to its address: another one needs the password anew, and no application that uses it', async () => {
    const { id } = (await create()).data;
    for (const fields of [{ address: 'docker.io' }, { username: 'another' }]) {
      const alone = await owner.put(`${path}/${id}`, fields);
      expect([alone.status, detailOf(alone)?.field]).toEqual([400, 'password']);
    }
    const app = (await anApplication({ registry_id: id })).data;
    const moved = await owner.put(`${path}/${id}`, { address: 'docker.io', password: 'x', untested: true });
    expect([moved.status, moved.body.error?.message]).toEqual([409, expect.stringContaining(app.name)]);
    expect((await owner.delete(`${path}/${id}`)).status).toBe(409);
    await owner.put(`/applications/${app.id}`, { registry_id: null });
    expect((await owner.delete(`${path}/${id}`)).status).toBe(204);
  });

  it('and an image meet at one registry, whichever of them changes', async () => {
    const { id } = (await create()).data;
    const refused = await anApplication({ registry_id: id, image_url: 'nginx:1' });
    expect([refused.status, detailOf(refused)?.field]).toEqual([400, 'registry_id']);
    const app = (await anApplication({ registry_id: id })).data;
    expect(app.registry_id).toBe(id);
    const moved = await owner.put(`/applications/${app.id}`, { image_url: 'nginx:1' });
    expect([moved.status, detailOf(moved)?.field]).toEqual([400, 'image_url']);
    const hub = (await create({ address: 'docker.io', untested: true })).data.id;
    expect((await anApplication({ registry_id: hub, image_url: 'team/web:1' })).status).toBe(201);
  });

  it('SEC-28 is for the projects that it allows', async () => {
    const other = (await owner.post('/projects', { name: aName() })).data.id;
    const { id } = (await create({ allowed_projects: [other] })).data;
    expect((await anApplication({ registry_id: id })).status).toBe(403);
    await owner.put(`${path}/${id}`, { allowed_projects: 'all' });
    const app = (await anApplication({ registry_id: id })).data.id;
    await owner.put(`${path}/${id}`, { allowed_projects: [other] });
    expect((await owner.post(`/applications/${app}/deploy`)).status).toBe(403);
  });

  it('shows its password in no log, audit record and record of the store', async () => {
    const { id } = (await create()).data;
    const audit = JSON.stringify((await owner.get('/audit?limit=500')).body);
    expect(audit).toContain(id);
    const stored = JSON.stringify(await entriesOf(world.store));
    for (const text of [...world.logged, audit, stored]) expect(text).not.toContain(real.password);
    expect(asked.length).toBeGreaterThan(0);
  });
});
