import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { labels } from '../agent/runtime/runtime.ts';
import type { ApiObject } from '../cli/client.ts';
import { docker, instancesOf } from '../test/harness/engine.ts';
import { Installation } from '../test/harness/installation.ts';
import { freePort } from '../test/harness/program.ts';
import { ensureCaddyImage, ensureTestImages } from '../test/harness/test-image.ts';
import { askHost } from '../test/harness/through-proxy.ts';
import type { Bench } from './bench.ts';
import { load } from './http-load.ts';
import { usageOf } from './process-figures.ts';
import { firstAnswer, rawContainers } from './raw-container.ts';

const host = 'bench.example.test';
const appPort = 8080;
const runMs = 3_000;
const rounds = 5;
const readyMs = 120_000;
const program = 'require("http").createServer((request, response) => response.end("Hello")).listen(8080)';

/** A proxy, and the process that it is. */
interface Proxied {
  url: string;
  pid: number;
}

/** The proxy of a server beside the same program with nothing but one address, both in front of the same instance. */
export const bench: Bench = {
  id: 'P20',
  async run({ compareAll, compare }) {
    const [{ http: image }, caddy] = [await ensureTestImages(), await ensureCaddyImage()];
    await using stack = new AsyncDisposableStack();
    const folder = await mkdtemp(join(tmpdir(), 'setpoint-bench-'));
    stack.defer(() => rm(folder, { recursive: true, force: true }));
    const town = stack.use(await Installation.start({ store: 'sqlite', serverFlags: ['--ingress-image', caddy] }));
    const port = await freePort();
    await town.client.object('PUT', `/api/v1/servers/${town.server.id}`, {
      direct_ports_enabled: false,
      ingress: { http_port: port, https_port: await freePort() },
    });
    const app = await startApplication(town, image);
    await town.until(
      'its domain leads to it',
      async () => (await askHost(`http://${host}/`, port)).status === 200,
      readyMs,
    );
    const [instance = ''] = await instancesOf(app.id);
    const address = `${await docker('inspect', '--format', '{{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}', instance)}:${appPort}`;
    const ours: Proxied = { url: `http://127.0.0.1:${port}`, pid: await pidOf(await proxyOf(town)) };
    const containers = stack.use(await rawContainers(caddy));
    const alone = await startAlone(containers, folder, address);

    for (const clients of [16, 1]) {
      const who = clients === 1 ? 'one client' : `${clients} clients`;
      await compareAll({
        figures: {
          rate: {
            what: `requests through the proxy of a server, ${who}; raw: Caddy with one fixed address and no log`,
            unit: 'per s',
          },
          p50: { what: 'the same, p50', unit: 'ms' },
          p99: { what: 'the same, p99', unit: 'ms' },
          cpu: { what: 'the same, processor time of the proxy for 1,000 requests', unit: 'ms' },
        },
        rounds,
        raw: () => figuresOf(alone, clients),
        ours: () => figuresOf(ours, clients),
      });
    }
    await compare({
      what: 'requests through Caddy with one fixed address, 16 clients; raw: straight to the instance',
      unit: 'per s',
      rounds,
      raw: async () => (await ask(`http://${address}`, 16)).perSecond,
      ours: async () => (await ask(alone.url, 16)).perSecond,
    });
  },
};

async function startApplication(town: Installation, image: string): Promise<ApiObject> {
  const app = await town.createApplication({
    source_type: 'image',
    image_url: image,
    start_command: `/bin/node -e '${program}'`,
    exposed_port: appPort,
    domains: [{ host, tls: 'off' }],
    healthcheck: { type: 'http', path: '/', interval_seconds: 60 },
    min_healthy_seconds: 0,
  });
  await town.deployment((await town.deploy(app.id)).id, 'succeeded', readyMs);
  return app;
}

/** The container of the proxy that the agent runs. */
async function proxyOf(town: Installation): Promise<string> {
  return docker('ps', '--quiet', '--no-trunc', '--filter', `label=${labels.workload}=${town.server.id}`);
}

async function pidOf(container: string): Promise<number> {
  return Number(await docker('inspect', '--format', '{{.State.Pid}}', container));
}

/** The same image in the network of the machine, as the agent runs it, with the least configuration that proxies. */
async function startAlone(
  containers: Awaited<ReturnType<typeof rawContainers>>,
  folder: string,
  address: string,
): Promise<Proxied> {
  const port = await freePort();
  const handle = [{ handler: 'reverse_proxy', upstreams: [{ dial: address }] }];
  const server = { listen: [`:${port}`], automatic_https: { disable: true }, routes: [{ handle }] };
  const config = { admin: { disabled: true }, apps: { http: { servers: { http: server } } } };
  await writeFile(join(folder, 'caddy.json'), JSON.stringify(config));
  const { id } = await containers.run({
    Cmd: ['/bin/caddy', 'run', '--config', '/config/caddy.json'],
    HostConfig: { NetworkMode: 'host', Binds: [`${folder}:/config:ro`] },
  });
  const url = `http://127.0.0.1:${port}`;
  await firstAnswer(url);
  return { url, pid: await pidOf(id) };
}

async function figuresOf(
  { url, pid }: Proxied,
  clients: number,
): Promise<{ rate: number; p50: number; p99: number; cpu: number }> {
  const before = await usageOf(pid);
  const begun = performance.now();
  const { perSecond, p50, p99 } = await ask(url, clients);
  const requests = (perSecond * (performance.now() - begun)) / 1000;
  const { cpuSeconds } = await usageOf(pid);
  return { rate: perSecond, p50, p99, cpu: ((cpuSeconds - before.cpuSeconds) * 1_000_000) / requests };
}

function ask(url: string, clients: number): ReturnType<typeof load> {
  return load(url, clients, () => ({ method: 'GET', path: '/', host }), runMs);
}
