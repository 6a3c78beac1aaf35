import { setTimeout as delay } from 'node:timers/promises';
import type { ApiObject } from '../cli/client.ts';
import { instancesOf } from '../test/harness/engine.ts';
import { Installation } from '../test/harness/installation.ts';
import { freePort } from '../test/harness/program.ts';
import { SteadyLoad } from '../test/harness/steady-load.ts';
import { ensureCaddyImage, ensureTestImages } from '../test/harness/test-image.ts';
import { askHost } from '../test/harness/through-proxy.ts';
import { until } from '../test/harness/until.ts';
import type { Bench } from './bench.ts';
import { percentile } from './measure.ts';
import { firstAnswer, rawContainers } from './raw-container.ts';
import type { RawContainers } from './raw-container.ts';

const host = 'released.example.test';
const perSecond = 500;
const replicas = 2;
/** At least this long is each load, which is somewhat more than a release takes. */
const loadMs = 10_000;
/** The questions of this benchmark cost the requests little. */
const askEveryMs = 500;
const rounds = 5;
const readyMs = 120_000;

/** What users of a replicated application notice of a release. Half of their requests have connections that are kept. */
export const bench: Bench = {
  id: 'P14',
  async run({ compareAll }) {
    const [{ http: image }, caddy] = [await ensureTestImages(), await ensureCaddyImage()];
    await using containers = await rawContainers(image);
    await using town = await Installation.start({ store: 'sqlite', serverFlags: ['--ingress-image', caddy] });
    const [port, httpPort] = [await freePort(), await freePort()];
    await town.client.object('PUT', `/api/v1/servers/${town.server.id}`, {
      ingress: { http_port: httpPort, https_port: await freePort() },
    });
    const app = await startApplication(town, image, port);
    await town.until(
      'its domain leads to it',
      async () => (await askHost(`http://${host}/`, httpPort)).status === 200,
      readyMs,
    );

    for (const [way, url] of [
      ['by its port', `http://127.0.0.1:${port}`],
      ['by its domain', `http://127.0.0.1:${httpPort}`],
    ] as const) {
      await compareAll({
        figures: {
          p50: {
            what: `${perSecond} requests/s ${way} during a release of ${replicas} instances, p50; raw: without`,
            unit: 'ms',
          },
          p99: { what: 'the same, p99', unit: 'ms', goal: { atMost: 2 } },
          p99Beside: {
            what: 'the same, p99; raw: while as many other containers are started and removed by the engine',
            unit: 'ms',
          },
          failed: { what: 'the same, requests without an answer', unit: 'requests', goal: { atMost: 0, of: 'ours' } },
        },
        rounds,
        raw: async () => {
          const { p50, p99 } = await under(url, () => Promise.resolve());
          const beside = await under(url, () => startOthers(containers));
          return { p50, p99, p99Beside: beside.p99 };
        },
        ours: async () => {
          const seen = await under(url, () => release(town, app));
          return { ...seen, p99Beside: seen.p99 };
        },
      });
    }
  },
};

async function startApplication(town: Installation, image: string, port: number): Promise<ApiObject> {
  const app = await town.createApplication({
    source_type: 'image',
    image_url: image,
    exposed_port: port,
    domains: [{ host, tls: 'off' }],
    healthcheck: { type: 'http', path: '/healthz', interval_seconds: 1 },
    replicas,
    min_healthy_seconds: 1,
    drain_seconds: 3,
    env: { PORT: String(port) },
  });
  await release(town, app);
  return app;
}

/** Deploys, and resolves once only the new instances are left. */
async function release(town: Installation, app: ApiObject): Promise<void> {
  const before = new Set(await instancesOf(app.id));
  const { id } = await town.deploy(app.id);
  await until(
    'only the new instances are left',
    async () => {
      const { status } = await town.client.object('GET', `/api/v1/deployments/${id}`);
      if (status !== 'succeeded') return false;
      const ids = await instancesOf(app.id);
      return ids.length === replicas && ids.every((one) => !before.has(one));
    },
    { timeoutMs: readyMs, everyMs: askEveryMs },
  );
}

/** Starts and removes as many containers as a release does, in the same order, as fast as the engine can. */
async function startOthers(containers: RawContainers): Promise<void> {
  for (let n = 0; n < replicas; n++) {
    const { id, url } = await containers.run();
    await firstAnswer(url);
    await containers.remove(id);
  }
}

async function under(url: string, work: () => Promise<unknown>): Promise<{ p50: number; p99: number; failed: number }> {
  const times: number[] = [];
  const common = { url: `${url}/healthz`, host, perSecond: perSecond / 2, answered: (ms: number) => times.push(ms) };
  await using short = new SteadyLoad(common);
  await using kept = new SteadyLoad({ ...common, connections: 16 });
  await Promise.all([work(), delay(loadMs)]);
  const ends = await Promise.all([short.end(), kept.end()]);
  const failed = ends.flatMap(({ failures }) => Object.values(failures)).reduce((sum, count) => sum + count, 0);
  return { p50: percentile(times, 0.5), p99: percentile(times, 0.99), failed };
}
