import { once } from 'node:events';
import type { Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import express from 'express';
import { Secret, TOTP } from 'otpauth';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { createClusterPages } from '../../api/pages/cluster-pages.ts';
import { systemRandom } from '../../api/ground/random.ts';
import { password, startApi } from '../harness/api.ts';
import type { ApiWorld } from '../harness/api.ts';

let world: ApiWorld;
let server: Server;

beforeEach(async () => {
  world = await startApi();
  const { store, mirror, clock, keyring: sealer } = world;
  const pages = createClusterPages({
    rotateControlKeys: () => Promise.resolve(),
    store,
    mirror,
    otherLeader: () => undefined,
    clock,
    random: systemRandom,
    sealer,
    token: 'operator',
    setupToken: () => undefined,
  });
  server = express().use(pages).listen(0, '127.0.0.1');
  await once(server, 'listening');
});
afterEach(async () => {
  server.closeAllConnections();
  server.close();
  await world[Symbol.asyncDispose]();
  expect(world.faults).toEqual([]);
});

const email = 'ada@example.test';
const login = (by: string) => world.client().post('/auth/login', { email, password: by });

async function ask(path: string, body?: object, token = 'operator') {
  const { port } = server.address() as AddressInfo; // a TCP server has such an address
  const response = await fetch(`http://127.0.0.1:${port}/cluster/v1${path}`, {
    method: 'POST',
    headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
    ...(body !== undefined && { body: JSON.stringify(body) }),
  });
  return { status: response.status, body: (await response.json()) as ReturnType<typeof JSON.parse> };
}

it('the operator gives an account a new password, which ends its sessions and keys and is to be changed before all else', async () => {
  const user = await world.user('user', email);
  const keys = await Promise.all(
    Array.from({ length: 12 }, async (_, n) => (await user.post('/settings/service-keys', { name: `key ${n}` })).data),
  );
  const answer = await ask('/users/reset-password', { tenant: 'default', email: 'Ada@Example.test' });
  expect(answer.status).toBe(200);
  for (const { key } of keys) expect((await world.client().get('/auth/me', { 'x-service-key': key })).status).toBe(401);
  expect((await user.get('/auth/me')).status).toBe(401);
  expect((await login(password)).status).toBe(401);
  const { data } = await login(answer.body.data.password);
  const me = await world.client(data.token).get('/auth/me');
  expect(me.data.must_reset_password).toBe(true);
  const refused = await world.client(data.token).get('/projects');
  expect([refused.status, refused.body.error?.details]).toEqual([
    403,
    [expect.objectContaining({ field: 'password', reason: 'password_reset_required' })],
  ]);
  const change = { current_password: answer.body.data.password, new_password: 'another horse battery' };
  const changed = await world.client(data.token).put('/auth/me/password', change);
  expect(changed.data.must_reset_password).toBe(false);
  expect((await world.client(data.token).get('/projects')).status).toBe(200);
});

it('the operator takes the second factor off an account, which ends its sessions', async () => {
  const user = await world.user('user', email);
  const { secret } = (await user.post('/auth/me/two-factor', { password })).data;
  const totp = new TOTP({ secret: Secret.fromBase32(secret) }).generate();
  expect((await user.post('/auth/me/two-factor/confirm', { totp })).status).toBe(200);
  expect((await login(password)).status).toBe(401);
  expect((await ask('/users/reset-two-factor', { tenant: 'default', email })).body.data).toEqual({ was_enabled: true });
  expect((await user.get('/auth/me')).status).toBe(401);
  expect((await login(password)).status).toBe(200);
  expect((await ask('/users/reset-two-factor', { tenant: 'default', email })).body.data).toEqual({
    was_enabled: false,
  });
});

it('nobody but the operator does so, and only to accounts that there are', async () => {
  await world.user('superadmin', email);
  for (const path of ['/users/reset-password', '/users/reset-two-factor', '/signing-keys/rotate'])
    expect((await ask(path, { tenant: 'default', email }, 'guess')).status).toBe(401);
  expect((await ask('/users/reset-password', { tenant: 'default', email: 'eve@example.test' })).status).toBe(404);
  expect((await ask('/users/reset-password', { tenant: 'other', email })).status).toBe(404);
  expect((await ask('/users/reset-password', { email })).status).toBe(400);
  expect((await login(password)).status).toBe(200);
});

it('the operator rotates the keys that sign tokens', async () => {
  const user = await world.user('user', email);
  const answer = await ask('/signing-keys/rotate');
  expect(answer.body.data).toEqual([
    { kid: expect.any(String), created_at: expect.any(String) },
    { kid: expect.any(String), created_at: expect.any(String) },
  ]);
  expect((await user.get('/auth/me')).status).toBe(200);
  expect((await login(password)).status).toBe(200);
});
