import { afterAll, beforeAll, expect, it } from 'vitest';
import { followEvents, instancesOf } from '../harness/engine.ts';
import { Installation } from '../harness/installation.ts';
import { freePort } from '../harness/program.ts';
import { longTag } from '../layer-report.ts';
import { SteadyLoad } from '../harness/steady-load.ts';
import { ensureRichImage, ensureTestImages } from '../harness/test-image.ts';

const patientMs = 120_000;
const release = { max_surge: 1, min_healthy_seconds: 1, healthy_deadline: 10, drain_seconds: 1 };

let town: Installation;
let http: string;
let rich: string;

beforeAll(async () => {
  [{ http }, rich] = [await ensureTestImages(), await ensureRichImage()];
  town = await Installation.start({ store: 'sqlite' });
});
afterAll(() => town[Symbol.asyncDispose]());

interface Row {
  fields: (port: number) => object;
  /** Of a release that becomes ready after a while, and of one that never does. */
  good: object;
  bad: object;
  /** What the engine reports of an instance once it can be ready. */
  sign: string;
  isAsked: boolean;
}

const rows: [string, Row][] = [
  [
    'accepts a connection',
    {
      fields: (port) => ({
        image_url: http,
        exposed_port: port,
        healthcheck: { type: 'tcp', interval_seconds: 1 },
        env: { PORT: String(port) },
      }),
      good: { LISTEN_AFTER_MS: '2000' },
      bad: { LISTEN_AFTER_MS: '600000' },
      sign: 'start',
      isAsked: true,
    },
  ],
  [
    'passes the health check of its image',
    {
      fields: () => ({
        image_url: rich,
        start_command: `/bin/sh -c 'sleep $AFTER; echo well > /tmp/healthy; exec sleep infinity'`,
        env: { AFTER: '0' },
      }),
      good: { AFTER: '2' },
      bad: { AFTER: '600' },
      sign: 'health_status: healthy',
      isAsked: false,
    },
  ],
  [
    'lives',
    {
      fields: () => ({ image_url: http, app_type: 'worker', min_healthy_seconds: 4, env: { ROUND: '0' } }),
      good: { ROUND: '1' },
      bad: { EXIT_AFTER_MS: '2000' },
      sign: 'start',
      isAsked: false,
    },
  ],
];

const ends = async (_: string, { fields, good, bad, sign, isAsked }: Row): Promise<void> => {
  const port = await freePort();
  const app = await town.createApplication({ source_type: 'image', ...release, ...fields(port) });
  await town.deployment((await town.deploy(app.id)).id, 'succeeded', patientMs);
  const [older] = await instancesOf(app.id);
  await using events = await followEvents(app.id);
  const load = isAsked ? new SteadyLoad({ url: `http://127.0.0.1:${port}/slow/20`, perSecond: 40 }) : undefined;

  const configured = async (env: object, status: string): Promise<void> => {
    await town.client.request('PATCH', `/api/v1/applications/${app.id}/env`, env);
    await town.deployment(String((await town.application(app.id))['deployment_id']), status, patientMs);
  };
  await configured(good, 'succeeded');
  const [newer] = await town.until(
    'the older instance is gone',
    async () => {
      const ids = await instancesOf(app.id);
      return ids.length === 1 && ids[0] !== older && ids;
    },
    patientMs,
  );
  await town.until('its end is told', async () => events.seen.includes(`die ${older}`));
  expect(events.seen).toContain(`${sign} ${newer}`);
  expect(events.seen.indexOf(`die ${older}`)).toBeGreaterThan(events.seen.indexOf(`${sign} ${newer}`));

  await configured(bad, 'failed');
  await town.until('what served serves alone', async () => String(await instancesOf(app.id)) === newer, patientMs);
  expect(events.seen).not.toContain(`die ${newer}`);
  expect((await town.application(app.id)).status).toBe('running');
  expect((await load?.end())?.failures ?? {}).toEqual({});
};
it.each(rows)(
  'ends an older instance once the new one %s, and leaves it where that never comes',
  { tags: [longTag], timeout: 3 * patientMs },
  ends,
);
