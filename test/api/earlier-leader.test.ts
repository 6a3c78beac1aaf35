import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import express from 'express';
import { afterAll, afterEach, beforeAll, describe, expect, it, test } from 'vitest';
import { createClusterPages } from '../../api/pages/cluster-pages.ts';
import { systemRandom } from '../../api/ground/random.ts';
import { keys } from '../../store/keys.ts';
import { thisRelease } from '../../store/release.ts';
import { otherLeader } from '../../store/replicas.ts';
import { createTenant } from '../../store/tenants.ts';
import { startApi } from '../harness/api.ts';
import type { Answer, ApiWorld, Client } from '../harness/api.ts';
import { AskedStore } from '../harness/asked-store.ts';

let world: ApiWorld;
let asked: AskedStore;
let owner: Client;
let place: { project: string; environment: string; server: string };

beforeAll(async () => {
  world = await startApi({ wrap: (inner) => (asked = new AskedStore(inner)) });
  owner = await world.owner();
  place = await world.place(owner);
});
afterAll(async () => {
  await world[Symbol.asyncDispose]();
  expect(world.faults).toEqual([]);
});
afterEach(() =>
  put({ [leader]: undefined, ...Object.fromEntries(['other', 'this'].map((id) => [keys.replica(id), undefined])) }),
);

const leader = keys.leader('controllers');
const url = 'http://other.test';
const first = { url, version: '1' };
const same = { ...first, ...thisRelease };
const { volume: _, ...withoutVolumes } = thisRelease.reads;

/** Writes these keys, and removes those without a value. */
async function put(values: Readonly<Record<string, unknown>>): Promise<void> {
  const then = Object.entries(values).map(([key, value]) =>
    value === undefined
      ? { delete: key }
      : { put: key, value: typeof value === 'string' ? value : JSON.stringify(value) },
  );
  await world.store.txn({ if: [], then });
  await world.settled();
}

/** Another replica leads, which announced this. */
const ledBy = (announced: unknown) => put({ [leader]: { replica: 'other' }, [keys.replica('other')]: announced });

let count = 0;
const aName = (): string => `name-${(count += 1)}`;

const aVolume = (name = aName()) =>
  owner.post('/volumes', { project_id: place.project, server_id: place.server, name });

const anApplication = () =>
  owner.post('/applications', {
    project_id: place.project,
    server_id: place.server,
    name: aName(),
    source_type: 'image',
    image_url: 'ghcr.io/example/web:1',
  });

/** A volume that an application mounts, created while nothing forbids it. */
async function aMount(): Promise<{ volume: string; app: string }> {
  const [volume, app] = [(await aVolume()).data.id, (await anApplication()).data.id];
  const bound = await owner.post(`/volumes/${volume}/bind`, binding(app));
  expect(bound.status).toBe(200);
  return { volume, app };
}

const binding = (app: string) => ({ workload_type: 'application', workload_id: app, mount_path: '/data' });

function expectRefused({ status, body, headers }: Answer, unknown: string): void {
  expect([status, body.error?.code]).toEqual([503, 'SERVICE_UNAVAILABLE']);
  expect(body.error?.details?.map(({ reason }) => reason)).toEqual(['not_written', 'earlier_leader']);
  expect(body.error?.message).toBe(
    `A replica of an earlier release leads and does not know ${unknown}: ` +
      'the operator must upgrade or stop that replica, then send the request again; nothing was written',
  );
  expect(headers.get('retry-after')).toBe('30');
}

describe('while a replica of the first release leads', () => {
  it('what only the API acts on is accepted: an SSH key, and a server that is to use it', async () => {
    await ledBy(first);
    const made = await owner.post('/settings/ssh-keys', { name: aName(), password: 'open sesame' });
    expect(made.status).toBe(201);
    const used = await owner.put(`/servers/${place.server}`, { ssh_key_id: made.data.id });
    expect([used.status, used.data.ssh_key_id]).toEqual([200, made.data.id]);
    expect((await owner.put(`/servers/${place.server}`, { ssh_key_id: null })).status).toBe(200);
    expect((await owner.delete(`/settings/ssh-keys/${made.data.id}`)).status).toBe(204);
  });

  it('an object of a kind that it does not know is refused, and nothing of it is written', async () => {
    await ledBy(first);
    const name = aName();
    const before = await world.store.list(keys.all);
    asked.reset();
    expectRefused(await aVolume(name), 'the kind volume');
    expect(asked.asked).not.toContain('txn');
    expect((await world.store.list(keys.all)).entries).toEqual(before.entries);
    await ledBy(same);
    expect((await aVolume(name)).status).toBe(201);
  });

  it('so is what else is asked of such an object, or of one with a setting that it does not know', async () => {
    const [{ volume, app }, free, spare] = [await aMount(), (await aVolume()).data.id, (await anApplication()).data.id];
    await ledBy(first);
    expectRefused(await owner.put(`/volumes/${free}`, { name: aName() }), 'the kind volume');
    expectRefused(await owner.delete(`/volumes/${free}`), 'the kind volume');
    const mounts = 'mounts of the kind application';
    expectRefused(await owner.post(`/volumes/${free}/bind`, binding(spare)), mounts);
    expectRefused(await owner.post(`/volumes/${volume}/unbind`, {}), mounts);
    expectRefused(await owner.post(`/applications/${app}/deploy`, {}), mounts);
    expectRefused(await owner.delete(`/applications/${app}`), mounts);
    expectRefused(await owner.put('/settings', { project_creation: 'admins' }), 'the kind settings');
    const ports = { direct_ports: { from: 2000 } };
    expectRefused(await owner.put(`/servers/${place.server}`, ports), 'direct_ports of the kind server');
  });

  it('so is the deletion or the clone of what holds such objects', async () => {
    const here = await world.place(owner);
    const path = `/projects/${here.project}/environments`;
    const { data: other } = await owner.post(path, { name: 'other' });
    const at = { project_id: here.project, environment_id: other.id, server_id: here.server };
    expect((await owner.post('/volumes', { ...at, name: aName() })).status).toBe(201);
    await ledBy(first);
    expectRefused(await owner.delete(`${path}/${other.id}?force=true`), 'the kind volume');
    expectRefused(await owner.delete(`/projects/${here.project}`), 'the kind volume');
    expectRefused(await owner.post(`${path}/${other.id}/clone`, { name: 'copy' }), 'the kind volume');
    expect((await owner.post(`${path}/${here.environment}/clone`, { name: 'copy' })).status).toBe(201);
  });

  it('all that it knows goes on, in one transaction', async () => {
    const { id } = (await anApplication()).data;
    await ledBy(first);
    asked.reset();
    expect((await owner.put(`/applications/${id}`, { watch_paths: 'src/**' })).status).toBe(200);
    expect(asked.asked).toEqual(['txn']);
    expect((await owner.post(`/applications/${id}/scale`, { replicas: 0 })).status).toBe(200);
    expect((await owner.post(`/applications/${id}/deploy`, {})).status).toBe(200);
    expect((await owner.put(`/servers/${place.server}`, { allowed_projects: [place.project] })).status).toBe(200);
    expect((await owner.post('/settings/service-keys', { name: aName() })).status).toBe(201);
    expect((await owner.post('/projects', { name: aName() })).status).toBe(201);
    expect((await world.client().post('/auth/send-code', { email: 'owner@example.test' })).status).toBe(200);
    expect((await world.user()).token).toBeDefined();
    expect((await owner.delete(`/applications/${id}`)).status).toBe(200);
  });

  it('a tenant with such objects is not deleted, which would remove their records and leave their data', async () => {
    await using pages = await clusterPages();
    await createTenant(world.store, 'another', world.clock);
    await aVolume();
    await ledBy(first);
    const refused = await pages.deleteTenant('default');
    expect(refused).toMatchObject({ status: 503, body: { error: { details: [{}, { reason: 'earlier_leader' }] } } });
    expect((await pages.deleteTenant('another')).status).toBe(200);
    expect((await owner.get('/auth/me')).status).toBe(200);
  });
});

test('a backup is made while the leader does not know what it keeps of the settings of its database', async () => {
  const destination = { name: aName(), provider: 'custom', endpoint: 'https://s3.example.test', bucket: 'backups' };
  const keysOfIt = { access_key: 'AKIDOFTHETEST', secret_key: 'sesame' };
  expect((await owner.post('/settings/backup-destinations', { ...destination, ...keysOfIt })).status).toBe(201);
  const settings = { memory_limit: '1g', connection_pooling: true, require_tls: true };
  const wanted = { project_id: place.project, server_id: place.server, name: aName(), type: 'postgres', ...settings };
  const { id } = (await owner.post('/databases', wanted)).data;
  await world.observe('database', id, { phase: 'running' });
  const { backup = [] } = thisRelease.fields;
  const known = { ...thisRelease.fields, backup: backup.filter((field) => !field.startsWith('of.settings')) };
  await ledBy({ ...same, fields: known });
  expect((await owner.post(`/databases/${id}/backups`, {})).status).toBe(201);
});

describe('an object of a kind that the first release does not know', () => {
  it.each([
    ['announced nothing of kinds', first],
    ['announced its kinds without that one', { ...same, reads: withoutVolumes }],
    ['has an announcement that cannot be read', '{'],
    ['is not in the directory', undefined],
  ])('is refused while the leader %s, which gets what every release knows', async (_, announced) => {
    await ledBy(announced);
    expectRefused(await aVolume(), 'the kind volume');
    expect((await anApplication()).status).toBe(201);
  });

  it('is refused while nothing can be read of who leads', async () => {
    await put({ [leader]: 'torn' });
    expectRefused(await aVolume(), 'the kind volume');
  });

  it('is refused while no replica leads, if one is announced to which this one leaves the lead', async () => {
    await put({ [keys.replica('other')]: first });
    expectRefused(await aVolume(), 'the kind volume');
  });

  it.each([
    ['another replica of this release', { [leader]: { replica: 'other' }, [keys.replica('other')]: same }],
    [
      'a replica of a later release',
      {
        [leader]: { replica: 'other' },
        [keys.replica('other')]: { ...same, reads: { ...same.reads, machine: 1 }, more: 'text' },
      },
    ],
    [
      'this replica, beside one of the first release',
      { [leader]: { replica: 'this' }, [keys.replica('other')]: first },
    ],
    ['no replica yet', { [keys.replica('other')]: same, [keys.replica('this')]: '{' }],
  ])('is accepted while %s leads', async (_, directory) => {
    await put(directory);
    expect((await aVolume()).status).toBe(201);
  });

  it('is accepted once another replica leads', async () => {
    await ledBy(first);
    expectRefused(await aVolume(), 'the kind volume');
    await put({ [leader]: { replica: 'this' } });
    expect((await aVolume()).status).toBe(201);
  });
});

/** The pages of the operator over the same store. */
async function clusterPages() {
  const { store, mirror, clock, keyring: sealer } = world;
  const pages = createClusterPages({
    storeFile: undefined,
    rotateControlKeys: () => Promise.resolve(),
    store,
    mirror,
    otherLeader: () => otherLeader(mirror, 'this'),
    clock,
    random: systemRandom,
    sealer,
    token: 'operator',
    publicUrl: 'https://setpoint.test',
    setupToken: () => undefined,
  });
  const server = express().use(pages).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo; // a TCP server has such an address
  return {
    async deleteTenant(name: string): Promise<{ status: number; body: unknown }> {
      const response = await fetch(`http://127.0.0.1:${port}/cluster/v1/tenants/${name}?confirm=${name}`, {
        method: 'DELETE',
        headers: { authorization: 'Bearer operator' },
      });
      return { status: response.status, body: await response.json() };
    },
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      const closed = once(server, 'close');
      server.close();
      await closed;
    },
  };
}
