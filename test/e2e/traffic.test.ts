import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { z } from 'zod';
import type { ApiObject } from '../../cli/client.ts';
import { docker, instancesOf } from '../harness/engine.ts';
import { Installation } from '../harness/installation.ts';
import { longTag } from '../layer-report.ts';
import { freePort } from '../harness/program.ts';
import { ensureCaddyImage, ensureTestImages } from '../harness/test-image.ts';
import { askHost, Load } from '../harness/through-proxy.ts';

const counts = {
  requests: z.int(),
  status: z.record(z.string(), z.int()),
  latency_ms: z.object({ p50: z.number().nullable(), p99: z.number().nullable() }),
  bytes_in: z.int(),
  bytes_out: z.int(),
  refused: z.record(z.string(), z.int()),
  aborted: z.int(),
};
const Traffic = z.object({
  available: z.boolean(),
  reason: z.string().nullable(),
  total: z.object({ complete: z.boolean(), ...counts }).nullable(),
  instances: z.array(z.object({ instance_id: z.string(), ...counts })),
});

let town: Installation;
let image: string;
let port: number;

beforeAll(async () => {
  ({ http: image } = await ensureTestImages());
  const caddy = await ensureCaddyImage();
  port = await freePort();
  town = await Installation.start({ store: 'sqlite', serverFlags: ['--ingress-image', caddy] });
  await town.client.object('PUT', `/api/v1/servers/${town.server.id}`, {
    direct_ports_enabled: false,
    ingress: { http_port: port, https_port: await freePort() },
  });
});
afterAll(async () => {
  await town[Symbol.asyncDispose]();
});

async function served(name: string, domains: object[], more: object = {}): Promise<ApiObject> {
  const app = await town.createApplication({
    source_type: 'image',
    image_url: image,
    exposed_port: 8080,
    healthcheck_path: '/healthz',
    env: { APP: name },
    domains,
    ...more,
  });
  const { id } = await town.deploy(app.id);
  await town.deployment(id, 'succeeded');
  await town.until('its domains lead to it', async () => {
    const it = await town.application(app.id);
    return it.conditions?.some((one) => one.type === 'RoutesReady' && one.status === 'true');
  });
  return app;
}

const read = async (id: string) =>
  Traffic.parse(await town.client.request('GET', `/api/v1/applications/${id}/traffic?since=30m`));

/** What was counted once that many requests were. */
const counted = (id: string, requests: number) =>
  town.until(
    `${requests} requests are counted`,
    async () => {
      const { total, instances } = await read(id);
      return total !== null && total.requests >= requests ? { ...total, instances } : undefined;
    },
    60_000,
  );

it('counts every request, by status, bytes and instance, and what the proxy answered itself', async () => {
  const app = await served(
    'counted',
    [
      { host: 'counted.example.test', tls: 'off' },
      {
        host: 'guarded.example.test',
        tls: 'off',
        basic_auth: [{ username: 'ann', password: 'correct horse' }],
        max_body_bytes: 10,
      },
    ],
    { replicas: 2, drain_seconds: 0 },
  );
  const stream = await town.client.socket(`/ws/applications/${app.id}/traffic`, {});
  const frames: unknown[] = [];
  stream.on('message', (text: Buffer) => frames.push(JSON.parse(text.toString())));
  stream.resume();

  const ask = (path: string, asking = {}) => askHost(`http://counted.example.test${path}`, port, asking);
  for (let n = 0; n < 30; n++)
    expect((await ask('/env/APP', { headers: { host: 'COUNTED.Example.test' } })).body).toBe('counted');
  for (let n = 0; n < 10; n++)
    expect((await ask('/env/NONE?token=hidden', { headers: { cookie: 'a=hidden' } })).status).toBe(404);
  // of a body that the program does not read, the proxy counts what it had read when the answer came
  for (let n = 0; n < 5; n++) expect((await ask('/read', { method: 'POST', body: 'y'.repeat(100) })).status).toBe(200);
  const guarded = 'http://guarded.example.test/';
  const authorization = `Basic ${Buffer.from('ann:correct horse').toString('base64')}`;
  for (let n = 0; n < 3; n++) expect((await askHost(guarded, port)).status).toBe(401);
  const long = { method: 'POST', body: 'longer than ten', headers: { authorization } };
  for (let n = 0; n < 2; n++) expect((await askHost(guarded, port, long)).status).toBe(413);
  expect((await askHost('http://unknown.example.test/', port)).status).toBe(404);

  const { instances, ...total } = await counted(app.id, 50);
  expect(total).toMatchObject({
    complete: true,
    requests: 50,
    status: { '2xx': 35, '4xx': 15, '5xx': 0 },
    refused: { unavailable: 0, unauthorized: 3, body_too_large: 2 },
    aborted: 0,
  });
  // the proxy reads of a body that is too long what is allowed, and a byte
  expect(total.bytes_in).toBe(5 * 100 + 2 * 11);
  const pages = 3 * 'Unauthorized\n'.length + 2 * 'Request Entity Too Large\n'.length;
  expect(total.bytes_out).toBe(30 * 'counted'.length + pages);
  expect(total.latency_ms.p50).toBeGreaterThan(0);
  expect(instances).toHaveLength(2);
  expect(instances.reduce((sum, one) => sum + one.requests, 0)).toBe(45);
  for (const one of instances) expect(one.requests).toBeGreaterThan(0);

  const Frame = z.object({ type: z.literal('traffic'), window_seconds: z.literal(5), requests: z.int() });
  await town.until('the stream had them', () => {
    const sum = frames.map((it) => Frame.safeParse(it).data?.requests ?? 0).reduce((a, b) => a + b, 0);
    return Promise.resolve(sum === 50);
  });
  stream.terminate();

  const logs = join(town.dir, 'agent/ingress/log');
  for (const name of await readdir(logs)) {
    const text = await readFile(join(logs, name), 'utf8');
    expect(text).not.toMatch(/hidden|127\.0\.0\.1|authorization|cookie/i);
  }
});

it(
  'counts none twice and misses none while its agent is killed and its proxy is replaced',
  { tags: [longTag] },
  async () => {
    const app = await served('lasting', [{ host: 'lasting.example.test', tls: 'off' }], { replicas: 2 });
    const load = new Load('http://lasting.example.test/', port, 4);
    await town.until('requests are answered', () => Promise.resolve(load.count > 50));
    for (let n = 0; n < 2; n++) {
      await town.agent.kill();
      const seen = load.count;
      await town.until(
        'requests were answered without the agent',
        () => Promise.resolve(load.count > seen + 200),
        60_000,
      );
      town.agent.start();
      await town.until('some are counted', async () => ((await read(app.id)).total?.requests ?? 0) > seen, 60_000);
    }
    const { count, failures } = await load.stop();
    expect(failures).toEqual([]);
    const before = await counted(app.id, count);
    expect(before).toMatchObject({ complete: true, requests: count, status: { '2xx': count } });
    expect(before.instances.reduce((sum, one) => sum + one.requests, 0)).toBe(count);

    const [proxy] = await instancesOf(town.server.id);
    await docker('rm', '--force', proxy!);
    const answer = () => askHost('http://lasting.example.test/', port).catch(() => undefined);
    await town.until('the proxy is back', async () => (await answer())?.status === 200, 60_000);
    for (let n = 0; n < 10; n++) await answer();
    const after = await counted(app.id, count + 11);
    // while it came back it may have answered that no instance was ready
    expect(after.requests - after.refused['unavailable']!).toBe(count + 11);
  },
);

it(
  'counts what no instance answered, and says why an application without a domain has no figures',
  { tags: [longTag] },
  async () => {
    const app = await served('stopped', [{ host: 'stopped.example.test', tls: 'off' }], { drain_seconds: 0 });
    await town.client.request('POST', `/api/v1/applications/${app.id}/stop`);
    await town.until('no instance is left', async () => (await instancesOf(app.id)).length === 0, 60_000);
    for (let n = 0; n < 4; n++) expect((await askHost('http://stopped.example.test/', port)).status).toBe(503);
    expect(await counted(app.id, 4)).toMatchObject({
      requests: 4,
      status: { '5xx': 4 },
      refused: { unavailable: 4 },
      instances: [],
    });
    await town.client.object('PUT', `/api/v1/applications/${app.id}`, { domains: [] });
    expect(await read(app.id)).toMatchObject({ available: false, reason: 'NoDomain', total: null });
  },
);
