import { randomUUID } from 'node:crypto';
import { request } from 'node:http';
import { text } from 'node:stream/consumers';
import { setTimeout as delay } from 'node:timers/promises';
import { z } from 'zod';
import type { ApiObject } from '../cli/client.ts';
import { containersWith, docker, instancesOf } from '../test/harness/engine.ts';
import { Installation } from '../test/harness/installation.ts';
import { freePort } from '../test/harness/program.ts';
import { ensureTestImages } from '../test/harness/test-image.ts';
import type { Bench } from './bench.ts';
import { firstAnswer, rawContainers } from './raw-container.ts';

const rounds = 11;
const label = 'setpoint-bench-run';
const Page = z.object({ host: z.string() });
const waitMs = 60_000;

/** One instance takes the place of another one: by a release, by the command line of the engine, and by its API. */
export const bench: Bench = {
  id: 'P1',
  async run({ compareAll }) {
    const { http: image } = await ensureTestImages();
    await using raw = await rawContainers(image);
    await using town = await Installation.start({ store: 'sqlite' });
    const [port, commandPort] = [await freePort(), await freePort()];
    const app = await town.createApplication({
      source_type: 'image',
      image_url: image,
      exposed_port: port,
      healthcheck: { type: 'http', path: '/healthz' },
      // without the waits that a release has so that users do not notice it
      min_healthy_seconds: 0,
      drain_seconds: 0,
      env: { PORT: String(port) },
    });
    const url = `http://127.0.0.1:${port}/`;
    await town.deployment((await town.deploy(app.id)).id, 'succeeded', waitMs);

    const own = randomUUID();
    await using ran = new AsyncDisposableStack();
    ran.defer(async () => {
      for (const id of await containersWith(label, own)) await docker('rm', '--force', id);
    });
    let present = await raw.run();
    await firstAnswer(present.url);
    await compareAll({
      figures: {
        command: {
          what: 'release of one instance, from the call until the new one answers; raw: docker run',
          unit: 'ms',
        },
        calls: {
          what: 'the same; raw: create and start by the API of the engine',
          unit: 'ms',
          goal: { atMost: 1.25 },
        },
        whole: {
          what: 'the same until the deployment has succeeded and the old one is gone; raw: docker run, docker rm -f',
          unit: 'ms',
        },
      },
      rounds,
      raw: async () => {
        const before = performance.now();
        const publish = `127.0.0.1:${commandPort}:8080`;
        const id = await docker('run', '--detach', '--label', `${label}=${own}`, '--publish', publish, image);
        await firstAnswer(`http://127.0.0.1:${commandPort}/`);
        const command = performance.now() - before;
        await docker('rm', '--force', present.id);
        const whole = performance.now() - before;
        await docker('rm', '--force', id);
        const again = performance.now();
        present = await raw.run();
        await firstAnswer(present.url);
        return { command, calls: performance.now() - again, whole };
      },
      ours: async () => {
        const old = await hostOf(url);
        const before = performance.now();
        const deployment = await town.deploy(app.id);
        await answerOfAnother(url, old);
        const serves = performance.now() - before;
        await town.deployment(deployment.id, 'succeeded', waitMs);
        await isAlone(town, app);
        return { command: serves, calls: serves, whole: performance.now() - before };
      },
    });
  },
};

/** Resolves once one instance is left. */
async function isAlone(town: Installation, app: ApiObject): Promise<void> {
  await town.until('one instance is left', async () => (await instancesOf(app.id)).length === 1, waitMs);
}

/** Resolves at the first answer of another instance than `old`. */
async function answerOfAnother(url: string, old: string | undefined): Promise<void> {
  const end = performance.now() + waitMs;
  for (let host = old; host === old || host === undefined; host = await hostOf(url)) {
    if (performance.now() > end) throw new Error(`No other instance answered at ${url}`);
    await delay(1);
  }
}

/** Returns the name of the instance that answers, or `undefined` if none does. */
function hostOf(url: string): Promise<string | undefined> {
  return new Promise((resolve) => {
    const asked = request(url, { agent: false, timeout: 50 }, (answer) => {
      text(answer).then(
        (body) => resolve(Page.parse(JSON.parse(body)).host),
        () => resolve(undefined),
      );
    });
    asked.on('timeout', () => asked.destroy());
    asked.on('error', () => resolve(undefined));
    asked.end();
  });
}
