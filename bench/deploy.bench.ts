import { setTimeout as delay } from 'node:timers/promises';
import type { ApiObject } from '../cli/client.ts';
import { engineCall } from '../test/harness/docker.ts';
import { instancesOf } from '../test/harness/engine.ts';
import { Installation } from '../test/harness/installation.ts';
import { freePort } from '../test/harness/program.ts';
import { ensureTestImages } from '../test/harness/test-image.ts';
import type { Bench } from './bench.ts';
import { timed } from './measure.ts';
import { usageOf } from './process-figures.ts';
import { firstAnswer, rawContainers } from './raw-container.ts';
import type { RawContainer } from './raw-container.ts';

const rounds = 15;

/** All programs run as separate processes, as in an installation; requests go to the port of the server. */
export const bench: Bench = {
  id: 'P1, P2, P11',
  async run({ compare }) {
    const { http: image } = await ensureTestImages();
    await using raw = await rawContainers(image);
    await using town = await Installation.start({ store: 'sqlite' });

    await compare({
      what: 'deploy of a local image, from the call until it serves; raw: create, start, first answer',
      unit: 'ms',
      goal: { atMost: 1.25 },
      rounds,
      raw: async () => {
        let id = '';
        const ms = await timed(async () => {
          const made = await raw.run();
          ({ id } = made);
          await firstAnswer(made.url);
        });
        await raw.remove(id);
        return ms;
      },
      ours: async () => {
        const app = await createApplication(town, image);
        const ms = await timed(async () => {
          await town.deploy(app.id);
          await firstAnswer(addressOf(app));
        });
        await remove(town, app);
        return ms;
      },
    });

    const app = await createApplication(town, image);
    const deployment = await town.deploy(app.id);
    await town.deployment(deployment.id, 'succeeded');
    const stop = new AbortController();
    let remade = Promise.withResolvers<RawContainer>();
    await raw.repair((it) => remade.resolve(it), stop.signal);
    let present = await raw.run();
    await compare({
      what: 'container removed by force until it serves again; raw: a script that listens to the engine',
      unit: 'ms',
      goal: { atMost: 1.3 },
      rounds,
      raw: async () => {
        remade = Promise.withResolvers();
        return timed(async () => {
          await engineCall('DELETE', `/containers/${present.id}?force=true`);
          present = await remade.promise;
          await firstAnswer(present.url);
        });
      },
      ours: async () => {
        await firstAnswer(addressOf(app));
        const [instance = ''] = await instancesOf(app.id);
        return timed(async () => {
          await engineCall('DELETE', `/containers/${instance}?force=true`);
          await firstAnswer(addressOf(app));
        });
      },
    });
    stop.abort();

    await delay(3_000);
    await compare({
      what: 'resident memory of an idle agent with one instance',
      unit: 'MB',
      goal: { atMost: 70 },
      rounds: 1,
      warmUps: 0,
      ours: async () => (await usageOf(town.agent.pid ?? 0)).memoryMb,
    });
  },
};

async function createApplication(town: Installation, image: string): Promise<ApiObject> {
  const port = await freePort();
  const how = { exposed_port: port, healthcheck_path: '/healthz', env: { PORT: String(port) } };
  return town.createApplication({ source_type: 'image', image_url: image, ...how });
}

function addressOf(app: ApiObject): string {
  return `http://127.0.0.1:${String(app['exposed_port'])}/`;
}

async function remove(town: Installation, app: ApiObject): Promise<void> {
  await town.client.request('DELETE', `/api/v1/applications/${app.id}`);
  await town.until('its instances are gone', async () => (await instancesOf(app.id)).length === 0);
}
