import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import express from 'express';
import { expect, test } from 'vitest';
import { systemRandom } from '../../api/random.ts';
import { createClusterPages } from '../../api/cluster-pages.ts';
import { startApi } from '../harness/api.ts';

test('a tenant that exists already is refused in the form of every other refusal', async () => {
  await using world = await startApi();
  const { store, mirror, clock, keyring: sealer } = world;
  const pages = createClusterPages({ store, mirror, clock, random: systemRandom, sealer, token: 'operator' });
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
    expect((await create('other')).status).toBe(201);
    const again = await create('other');
    expect(again.status).toBe(409);
    expect(again.headers.get('content-type')).toMatch(/^application\/json/);
    expect(await again.json()).toMatchObject({
      success: false,
      error: { code: 'CONFLICT', message: 'Tenant exists already: other' },
    });
  } finally {
    server.closeAllConnections();
    server.close();
  }
});
