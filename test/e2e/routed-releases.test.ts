import { afterAll, beforeAll, expect, it } from 'vitest';
import { z } from 'zod';
import type { ApiObject } from '../../cli/client.ts';
import { docker, instancesOf } from '../harness/engine.ts';
import { Installation } from '../harness/installation.ts';
import { freePort } from '../harness/program.ts';
import { SteadyLoad } from '../harness/steady-load.ts';
import { ensureCaddyImage, ensureTestImages } from '../harness/test-image.ts';
import { askHost } from '../harness/through-proxy.ts';

const patientMs = 120_000;
const Page = z.object({ host: z.string() });

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
afterAll(() => town[Symbol.asyncDispose]());

/** An application that only a domain leads to, and which is reached. */
async function served(host: string, replicas: number): Promise<ApiObject> {
  const app = await town.createApplication({
    source_type: 'image',
    image_url: image,
    exposed_port: 8080,
    domains: [{ host, tls: 'off' }],
    healthcheck: { type: 'http', path: '/healthz', interval_seconds: 1 },
    replicas,
    max_surge: 2,
    min_healthy_seconds: 1,
    healthy_deadline: 15,
    drain_seconds: 5,
    env: { HASTY: '1' },
  });
  await town.deployment((await town.deploy(app.id)).id, 'succeeded', patientMs);
  await reached(host);
  return app;
}

const reached = (host: string): Promise<unknown> =>
  town.until('its domain leads to it', async () => (await askHost(`http://${host}/`, port)).status === 200, patientMs);

/** Carries it out under load, and answers with what the users saw. */
async function underLoad(host: string, what: () => Promise<unknown>): Promise<object> {
  const url = `http://127.0.0.1:${port}`;
  await using short = new SteadyLoad({ url: `${url}/slow/20`, host, perSecond: 40 });
  await using long = new SteadyLoad({ url: `${url}/slow/3000`, host, perSecond: 5 });
  await using posted = new SteadyLoad({ url: `${url}/slow/20`, host, perSecond: 40, body: 'once' });
  await using postedLong = new SteadyLoad({ url: `${url}/slow/3000`, host, perSecond: 5, body: 'once' });
  await using kept = new SteadyLoad({ url: `${url}/slow/5`, host, perSecond: 20, connections: 6, body: 'once' });
  await what();
  const outcomes = await Promise.all([short, long, posted, postedLong, kept].map((load) => load.end()));
  for (const { sent } of outcomes) expect(sent).toBeGreaterThan(0);
  return Object.assign({}, ...outcomes.map(({ failures }) => failures)) as object;
}

it(
  'answers every request through a release whose first instances serve and whose last one is never ready',
  { tags: 'long', timeout: 3 * patientMs },
  async () => {
    const host = 'half.example.test';
    const app = await served(host, 3);
    const before = await instancesOf(app.id);
    const fresh = async (): Promise<string[]> => (await instancesOf(app.id)).filter((id) => !before.includes(id));
    const isBad = async (id: string): Promise<boolean> =>
      (await docker('inspect', '--format', '{{.Config.Env}}', id)).includes('HEALTH=503');
    const failures = await underLoad(host, async () => {
      await town.client.request('PATCH', `/api/v1/applications/${app.id}/env`, { HEALTH: '503' });
      const both = await town.until(
        'two new instances run',
        async () => {
          const ids = await fresh();
          return ids.length === 2 && ids;
        },
        patientMs,
      );
      const names = both.map((id) => id.slice(0, 12));
      for (const id of both) await heal(id);
      const answering = new Set<string>();
      await town.until(
        'both have requests',
        async () => {
          answering.add(Page.parse(JSON.parse((await askHost(`http://${host}/`, port)).body)).host);
          return names.every((name) => answering.has(name));
        },
        patientMs,
      );
      const { deployment_id } = await town.application(app.id);
      await town.deployment(String(deployment_id), 'failed', patientMs);
      await town.until(
        'it serves as before',
        async () => {
          const ids = await instancesOf(app.id);
          const bad = await Promise.all(ids.map(isBad));
          return ids.length === 3 && !bad.includes(true) && (await town.application(app.id))['ready_replicas'] === 3;
        },
        patientMs,
      );
    });
    expect(failures).toEqual({});
    expect(await town.application(app.id)).toMatchObject({ status: 'running', ready_replicas: 3 });
  },
);

/** Makes an instance ready, once it listens. */
async function heal(container: string): Promise<void> {
  const ask = "fetch('http://127.0.0.1:8080/health/200').then((it) => process.exit(it.ok ? 0 : 1))";
  await town.until(`${container} is well`, async () => {
    await docker('exec', container, '/bin/node', '-e', ask);
    return true;
  });
}

it(
  'is scaled from one instance to twenty and to none under load, and started again with twenty',
  { tags: 'long', timeout: 5 * patientMs },
  async () => {
    const host = 'scaled.example.test';
    const app = await served(host, 1);
    const scale = (replicas: number): Promise<unknown> =>
      town.client.request('POST', `/api/v1/applications/${app.id}/scale`, { replicas });
    const ready = (count: number): Promise<unknown> =>
      town.until(
        `${count} instances are ready`,
        async () => {
          const one = await town.application(app.id);
          return one['ready_replicas'] === count && one.observed_generation === one.generation;
        },
        patientMs,
      );
    const everyInstanceAnswers = async (): Promise<void> => {
      const answering = new Set<string>();
      await town.until(
        'twenty instances answer',
        async () => {
          answering.add(Page.parse(JSON.parse((await askHost(`http://${host}/`, port)).body)).host);
          return answering.size === 20;
        },
        patientMs,
      );
    };
    const failures = await underLoad(host, async () => {
      await scale(20);
      await ready(20);
      await everyInstanceAnswers();
    });
    expect(failures).toEqual({});

    await scale(0);
    await town.until('no instance is left', async () => (await instancesOf(app.id)).length === 0, patientMs);
    expect((await askHost(`http://${host}/`, port)).status).toBe(503);

    await town.client.request('POST', `/api/v1/applications/${app.id}/start`);
    await reached(host);
    expect(
      await underLoad(host, async () => {
        await ready(20);
        await everyInstanceAnswers();
        await scale(1);
        await town.until('one instance is left', async () => (await instancesOf(app.id)).length === 1, patientMs);
      }),
    ).toEqual({});
  },
);
