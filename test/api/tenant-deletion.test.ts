import { once } from 'node:events';
import type { Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import express from 'express';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { createClusterPages } from '../../api/pages/cluster-pages.ts';
import { systemRandom } from '../../api/ground/random.ts';
import { keys } from '../../store/keys.ts';
import { createFirstTenant, createTenant, listTenants } from '../../store/tenants.ts';
import { startApi } from '../harness/api.ts';
import type { ApiWorld } from '../harness/api.ts';
import { openFrames, Refusal } from '../harness/frames.ts';

let world: ApiWorld;
let server: Server;
let url: string;

beforeEach(async () => {
  world = await startApi();
  const { store, mirror, clock, keyring: sealer } = world;
  server = express()
    .use(
      createClusterPages({
        storeFile: undefined,
        rotateControlKeys: () => Promise.resolve(),
        store,
        mirror,
        otherLeader: () => undefined,
        clock,
        random: systemRandom,
        sealer,
        token: 'operator',
        publicUrl: 'https://setpoint.test',
        setupToken: () => undefined,
      }),
    )
    .listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo; // a TCP server has such an address
  url = `http://127.0.0.1:${port}/cluster/v1/tenants`;
});
afterEach(async () => {
  server.closeAllConnections();
  server.close();
  await world[Symbol.asyncDispose]();
  expect(world.faults).toEqual([]);
});

async function ask(
  method: string,
  path = '',
  body?: unknown,
): Promise<{ status: number; body: ReturnType<typeof JSON.parse> }> {
  const response = await fetch(`${url}${path}`, {
    method,
    headers: { authorization: 'Bearer operator', 'content-type': 'application/json' },
    ...(body !== undefined && { body: JSON.stringify(body) }),
  });
  return { status: response.status, body: await response.json() };
}

const confirmed = (name: string): string => `/${name}?confirm=${name}`;

test('a tenant is deleted by the operator alone, and only if its name is confirmed', async () => {
  await createTenant(world.store, 'other', world.clock);
  await world.settled();
  expect((await fetch(`${url}${confirmed('other')}`, { method: 'DELETE' })).status).toBe(401);
  for (const path of ['/other', '/other?confirm=', '/other?confirm=default']) {
    const refused = await ask('DELETE', path);
    expect([refused.status, refused.body.error.details[0].field], path).toEqual([400, 'confirm']);
  }
  expect((await ask('DELETE', confirmed('nobody'))).status).toBe(404);
  expect((await world.client(undefined, 'other').get('/auth/setup-status')).status).toBe(200);
  expect(await ask('DELETE', confirmed('other'))).toMatchObject({
    status: 200,
    body: { data: { name: 'other', state: 'deleting' } },
  });
  expect((await ask('DELETE', confirmed('other'))).status).toBe(200);
  await world.settled();
  expect((await ask('GET')).body.data).toMatchObject([
    { name: 'default', state: 'active', waits_for: [] },
    { name: 'other', state: 'deleting', waits_for: [] },
  ]);
});

test('the last tenant stays, also where the last two are deleted at once', async () => {
  const refused = await ask('DELETE', confirmed('default'));
  expect(refused.status).toBe(409);
  expect(refused.body.error.message).toContain('create another tenant first');
  await createTenant(world.store, 'other', world.clock);
  const both = await Promise.all([ask('DELETE', confirmed('default')), ask('DELETE', confirmed('other'))]);
  expect(both.map(({ status }) => status).toSorted((a, b) => a - b)).toEqual([200, 409]);
  await world.settled();
  expect(
    listTenants(world.mirror)
      .map(({ state }) => state)
      .sort(),
  ).toEqual(['active', 'deleting']);
  // A replica that starts makes no tenant where there is one.
  await createFirstTenant(world.store, world.clock);
  await world.settled();
  expect(listTenants(world.mirror)).toHaveLength(2);
});

test('the list says what a tenant that is being deleted waits for', async () => {
  const owner = await world.owner();
  await world.place(owner);
  await createTenant(world.store, 'other', world.clock);
  await ask('DELETE', confirmed('default'));
  await world.settled();
  const [tenant] = (await ask('GET')).body.data;
  expect(tenant).toMatchObject({
    name: 'default',
    waits_for: [expect.stringMatching(/^server server-/), expect.stringMatching(/^\d+ other objects$/)],
  });
});

test('a tenant that is being deleted answers 404 to everything, closes its streams, and keeps its name', async () => {
  const owner = await world.owner();
  await createTenant(world.store, 'other', world.clock);
  const address = `${world.url.replace('http', 'ws')}/default/ws/watch?token=${owner.token}`;
  await using frames = await openFrames(address);
  await frames.next('ready');
  expect((await ask('DELETE', confirmed('default'))).status).toBe(200);
  expect(await frames.closed).toEqual({ code: 4404, reason: 'tenant is gone' });
  const refusal = await openFrames(address).catch((error: unknown) => error);
  expect(refusal).toBeInstanceOf(Refusal);
  expect((refusal as Refusal).status).toBe(404);
  const visitor = world.client();
  for (const answer of [
    await owner.get('/projects'),
    await owner.post('/projects', { name: 'x' }),
    await visitor.get('/auth/setup-status'),
    await visitor.post('/auth/login', { email: 'owner@example.test', password: 'correct horse battery' }),
    await owner.get('/nothing'),
  ])
    expect([answer.status, answer.body.error]).toEqual([
      404,
      expect.objectContaining({ code: 'NOT_FOUND', message: 'Tenant not found' }),
    ]);
  const again = await ask('POST', '', { name: 'default' });
  expect(again.status).toBe(409);
  expect(again.body.error.message).toBe('Tenant is being deleted: its name is free again when it is gone: default');
  expect((await world.client(undefined, 'other').get('/auth/setup-status')).status).toBe(200);
});

test('what was under way when the deletion began writes nothing into the tenant', async () => {
  const owner = await world.owner();
  await createTenant(world.store, 'other', world.clock);
  await world.settled();
  const original = world.store.txn.bind(world.store);
  let raced = false;
  world.store.txn = async (txn) => {
    if (!raced && txn.then.some((write) => 'put' in write && write.put.includes('/d/server/'))) {
      raced = true;
      expect((await ask('DELETE', confirmed('default'))).status).toBe(200);
    }
    return original(txn);
  };
  const answer = await owner.post('/servers', { name: 'late' }, { 'idempotency-key': 'k' });
  expect(raced).toBe(true);
  expect([answer.status, answer.body.error?.message]).toEqual([404, 'Tenant not found']);
  const { entries } = await world.store.list(keys.ofTenant('default'));
  expect(entries.filter(({ key }) => key.includes('/server/') || key.includes('/idem/'))).toEqual([]);
});
