import { setTimeout as delay } from 'node:timers/promises';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { z } from 'zod';
import type { ApiObject } from '../../cli/client.ts';
import { Installation } from '../harness/installation.ts';
import { freePort } from '../harness/program.ts';
import { SteadyLoad } from '../harness/steady-load.ts';
import { ensureCaddyImage, ensureTestImages } from '../harness/test-image.ts';
import { askHost } from '../harness/through-proxy.ts';

const perSecond = 200;
/** With the encrypted one, as many as an application may have. */
const hosts = Array.from({ length: 19 }, (_, n) => `h${n}.example.test`);
const sealed = 'sealed.example.test';
const awayMs = 180_000;
const frozenMs = 60_000;
/** In which the agent takes up all that it does. */
const settlingMs = 20_000;
const patientMs = 120_000;
const Counted = z.object({ total: z.object({ requests: z.number(), complete: z.boolean() }) });

let town: Installation;
let app: ApiObject;
let httpPort: number;
let httpsPort: number;

beforeAll(async () => {
  const { http: image } = await ensureTestImages();
  const caddy = await ensureCaddyImage();
  [httpPort, httpsPort] = [await freePort(), await freePort()];
  town = await Installation.start({ store: 'sqlite', serverFlags: ['--ingress-image', caddy] });
  await town.client.object('PUT', `/api/v1/servers/${town.server.id}`, {
    direct_ports_enabled: false,
    ingress: { http_port: httpPort, https_port: httpsPort },
  });
  app = await town.createApplication({
    source_type: 'image',
    image_url: image,
    exposed_port: 8080,
    domains: [...hosts.map((host) => ({ host, tls: 'off' })), { host: sealed, tls: 'internal' }],
    healthcheck: { type: 'http', path: '/healthz', interval_seconds: 1 },
    replicas: 2,
    min_healthy_seconds: 1,
  });
  await town.deployment((await town.deploy(app.id)).id, 'succeeded', patientMs);
  for (const host of hosts) await town.until(`${host} leads to it`, async () => isOk(`http://${host}/`), patientMs);
  await town.until('the encrypted domain leads to it', async () => isOk(`https://${sealed}/`), patientMs);
  // The proxy finds a new instance without the agent some seconds after the agent told of it.
  await delay(settlingMs);
});
afterAll(() => town[Symbol.asyncDispose]());

async function isOk(address: `${'http' | 'https'}://${string}`): Promise<boolean> {
  return (await askHost(address, address.startsWith('https:') ? httpsPort : httpPort)).status === 200;
}

/** Requests to each host, of every kind. What is posted is never sent again. */
function usersOf(stack: AsyncDisposableStack): SteadyLoad[] {
  const url = `http://127.0.0.1:${httpPort}`;
  return hosts.map((host, n) => {
    const more = [{}, { body: 'once' }, { connections: 4 }, { connections: 4, body: 'once' }][n % 4];
    return stack.use(new SteadyLoad({ url: `${url}/read`, host, perSecond: perSecond / hosts.length, ...more }));
  });
}

/** Asks the encrypted host ten times a second at most, on a new connection each time, until the signal aborts. */
async function visits(signal: AbortSignal): Promise<{ sent: number; failures: string[] }> {
  const failures: string[] = [];
  let sent = 0;
  for (; !signal.aborted; sent++) {
    const { status } = await askHost(`https://${sealed}/`, httpsPort).catch((error: unknown) => ({ status: error }));
    if (status !== 200) failures.push(String(status));
    await delay(100); // its pace
  }
  return { sent, failures };
}

it.each([
  {
    what: 'is killed, and away for three minutes',
    leave: async () => {
      await town.agent.kill();
      await delay(awayMs); // the time is the point of the test
      town.agent.start();
    },
  },
  {
    what: 'is frozen for a minute',
    leave: async () => {
      const pid = Number(town.agent.pid);
      process.kill(pid, 'SIGSTOP');
      await delay(frozenMs); // the time is the point of the test
      process.kill(pid, 'SIGCONT');
    },
  },
])(
  'answers and counts every request while the agent $what',
  async ({ leave }) => {
    const counted = async () =>
      Counted.parse(await town.client.request('GET', `/api/v1/applications/${app.id}/traffic?since=30m`)).total;
    const before = await counted();
    const stopped = new AbortController();
    await using stack = new AsyncDisposableStack();
    const loads = usersOf(stack);
    const visiting = visits(stopped.signal);
    await delay(settlingMs);
    await leave();
    await town.until(
      'the agent reports again',
      async () => (await town.client.object('GET', `/api/v1/servers/${town.server.id}`)).status === 'active',
      patientMs,
    );
    await delay(settlingMs);
    stopped.abort();
    const visited = await visiting;
    const ends = await Promise.all(loads.map((load) => load.end()));
    const sent = visited.sent + ends.reduce((sum, it) => sum + it.sent, 0);
    console.log(`${sent} requests, ${visited.sent} of them encrypted`);
    expect(visited.failures).toEqual([]);
    expect(ends.map(({ failures }) => failures)).toEqual(hosts.map(() => ({})));
    await town.until(
      'all are counted',
      async () => {
        const { requests } = await counted();
        if (requests - before.requests < sent) throw new Error(`${requests - before.requests} of ${sent} are counted`);
        return true;
      },
      patientMs,
    );
    expect((await counted()).requests).toBe(before.requests + sent);
  },
  awayMs + 4 * patientMs,
);
