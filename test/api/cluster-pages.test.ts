import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import express from 'express';
import { expect, test } from 'vitest';
import { chainPending } from '../../controllers/audit/chain.ts';
import { installationLog } from '../../store/audit/record.ts';
import { createClusterPages } from '../../api/pages/cluster-pages.ts';
import { systemRandom } from '../../api/ground/random.ts';
import { startApi } from '../harness/api.ts';

test('a tenant is made once, which the log of the installation says, and refused like everything else that is there', async () => {
  await using world = await startApi();
  const { store, mirror, clock, keyring: sealer } = world;
  const pages = createClusterPages({
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
  });
  const app = express().use(pages);
  const server = app.listen(0, '127.0.0.1');
  try {
    await once(server, 'listening');
    const { port } = server.address() as AddressInfo; // a TCP server has such an address
    const create = (name: string) =>
      fetch(`http://127.0.0.1:${port}/cluster/v1/tenants`, {
        method: 'POST',
        headers: { authorization: 'Bearer operator', 'content-type': 'application/json' },
        body: JSON.stringify({ name }),
      });
    const forwarded = { authorization: 'Bearer operator', 'x-forwarded-for': '127.0.0.1' };
    const through = await fetch(`http://127.0.0.1:${port}/cluster/v1/tenants`, { headers: forwarded });
    expect(through.status).toBe(404);
    const made = await create('other');
    expect(made.status).toBe(201);
    expect(await made.json()).toEqual({ success: true, data: { name: 'other', url: 'https://setpoint.test/other' } });
    const again = await create('other');
    expect(again.status).toBe(409);
    expect(again.headers.get('content-type')).toMatch(/^application\/json/);
    expect(await again.json()).toMatchObject({
      success: false,
      error: { code: 'CONFLICT', message: 'Tenant exists already: other' },
    });
    const page = async (path: string) => {
      const answer = await fetch(`http://127.0.0.1:${port}/cluster/v1${path}`, {
        headers: { authorization: 'Bearer operator' },
      });
      return ((await answer.json()) as { data: unknown }).data;
    };
    const entry = {
      route: 'POST /cluster/v1/tenants',
      result: 'ok',
      role: 'operator',
      objects: [{ kind: 'tenant', id: 'other', name: 'other', action: 'create', fields: [] }],
    };
    expect(await page('/audit')).toMatchObject([{ ...entry, seq: null }]);
    await chainPending(store, installationLog, [], AbortSignal.timeout(10_000));
    expect(await page('/audit')).toMatchObject([{ ...entry, seq: 1 }]);
    expect(await page('/audit/verify')).toMatchObject({ ok: true, count: 1, head: { seq: 1 } });
  } finally {
    server.closeAllConnections();
    server.close();
  }
});
