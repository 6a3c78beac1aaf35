import { request } from 'node:http';
import { connect } from 'node:net';
import { text } from 'node:stream/consumers';
import { WebSocket } from 'ws';
import { afterEach, describe, expect, it } from 'vitest';
import { startApi } from '../harness/api.ts';
import type { ApiWorld } from '../harness/api.ts';

/** SEC-42: requests are for a name of the installation, and pages of the operator for whom they are meant. */
let world: ApiWorld;
afterEach(async () => {
  await world[Symbol.asyncDispose]();
  expect(world.faults).toEqual([]);
});

function get(path: string, headers: Record<string, string>): Promise<{ status: number; body: string }> {
  return new Promise((resolve, reject) => {
    const asked = request(`${world.url}${path}`, { headers }, (response) => {
      text(response).then((body) => resolve({ status: response.statusCode ?? 0, body }), reject);
    });
    asked.on('error', reject);
    asked.end();
  });
}

/** Status of the answer to a request for a WebSocket. */
function upgrade(host: string): Promise<number> {
  const socket = new WebSocket(`${world.url.replace('http', 'ws')}/default/ws/watch`, { headers: { host } });
  return new Promise((resolve, reject) => {
    socket.on('unexpected-response', (asked, response) => {
      asked.destroy();
      resolve(response.statusCode ?? 0);
    });
    socket.on('open', () => reject(new Error('It opened without a credential')));
    socket.on('error', () => undefined);
  });
}

describe('SEC-42: a request', () => {
  const status = '/default/api/v1/auth/setup-status';

  it.each([
    'setpoint.example',
    'SETPOINT.example:8443',
    'setpoint.example.',
    'localhost:7070',
    '192.0.2.1',
    '[::1]:7070',
  ])('for %s is answered', async (host) => {
    world = await startApi({ config: { allowedHosts: ['setpoint.example'] } });
    expect((await get(status, { host })).status).toBe(200);
    expect(await upgrade(host)).toBe(401);
  });

  it.each([
    'evil.example',
    'setpoint.example.evil.example',
    'evil.example:7070',
    '127.0.0.1.evil.example',
    'a@setpoint.example',
  ])('for %s is refused, whatever it asks for', async (host) => {
    world = await startApi({ config: { allowedHosts: ['setpoint.example'] } });
    for (const path of [status, '/console', '/openapi.json', '/metrics', '/nothing']) {
      const answer = await get(path, { host });
      expect([path, answer.status, JSON.parse(answer.body).error.code]).toEqual([path, 400, 'BAD_REQUEST']);
    }
    expect(await upgrade(host)).toBe(400);
    for (const probe of ['/healthz', '/readyz']) expect((await get(probe, { host })).status).toBe(200);
  });

  it('for two names is refused', async () => {
    world = await startApi({ config: { allowedHosts: ['setpoint.example'] } });
    const socket = connect(Number(new URL(world.url).port), '127.0.0.1');
    const lines = [`GET ${status} HTTP/1.1`, 'host: setpoint.example', 'host: evil.example', 'connection: close'];
    socket.write(`${lines.join('\r\n')}\r\n\r\n`);
    expect(await text(socket)).toMatch(/^HTTP\/1\.1 400 /);
  });

  it('is answered for every name where none is set, or all are', async () => {
    world = await startApi();
    expect((await get(status, { host: 'evil.example' })).status).toBe(200);
    await world[Symbol.asyncDispose]();
    world = await startApi({ config: { allowedHosts: ['*'] } });
    expect((await get(status, { host: 'evil.example' })).status).toBe(200);
  });
});

describe('the metrics', () => {
  const metrics = async (headers: Record<string, string> = {}): Promise<number> =>
    (await get('/metrics', { host: 'x', ...headers })).status;

  it('are read on this machine, and not through a proxy that nobody named', async () => {
    world = await startApi();
    expect(await metrics()).toBe(200);
    expect(await metrics({ 'x-forwarded-for': '127.0.0.1' })).toBe(403);
    expect(await metrics({ forwarded: 'for=127.0.0.1' })).toBe(403);
  });

  it('are read by the clients of a trusted proxy where they may be', async () => {
    world = await startApi({ config: { trustedProxies: ['127.0.0.1'], metricsFrom: ['10.0.0.0/8'] } });
    expect(await metrics({ 'x-forwarded-for': '10.1.2.3' })).toBe(200);
    expect(await metrics({ 'x-forwarded-for': '192.0.2.1' })).toBe(403);
    expect(await metrics({ 'x-forwarded-for': '10.1.2.3, 192.0.2.1' })).toBe(403);
  });

  it('are read by this machine alone unless the operator says otherwise', async () => {
    world = await startApi({ config: { trustedProxies: ['127.0.0.1'] } });
    expect(await metrics()).toBe(200);
    for (const address of ['10.1.2.3', '192.168.0.2', '100.64.0.1', 'fc00::1', '192.0.2.1'])
      expect(await metrics({ 'x-forwarded-for': address })).toBe(403);
  });

  it('are read from where the operator says', async () => {
    world = await startApi({ config: { metricsFrom: ['192.0.2.0/24'], trustedProxies: ['127.0.0.1'] } });
    expect(await metrics()).toBe(403);
    expect(await metrics({ 'x-forwarded-for': '192.0.2.9' })).toBe(200);
    const refused = await get('/metrics', { host: 'x' });
    expect(JSON.parse(refused.body).error).toMatchObject({
      code: 'FORBIDDEN',
      message: expect.stringContaining('--metrics-from'),
    });
  });
});
