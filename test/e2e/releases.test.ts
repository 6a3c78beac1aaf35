import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { z } from 'zod';
import type { ApiObject } from '../../cli/client.ts';
import { docker } from '../harness/engine.ts';
import { Installation } from '../harness/installation.ts';
import { freePort } from '../harness/program.ts';
import { SteadyLoad } from '../harness/steady-load.ts';
import { ensureTestImages } from '../harness/test-image.ts';
import { longTag } from '../layer-report.ts';

/** What the tests of this file wait for at most: a rollout of three instances under load on a small machine. */
const patientMs = 120_000;

const Logs = z.object({
  lines: z.array(z.object({ instance_id: z.string(), message: z.string() })),
  next_cursor: z.string().nullable(),
});

describe('a replicated application under load', () => {
  let town: Installation;
  let app: ApiObject;
  let port: number;
  let image: string;
  const base = (): string => `/api/v1/applications/${app.id}`;
  const change = (fields: object): Promise<unknown> => town.client.request('PUT', base(), fields);

  beforeAll(async () => {
    ({ http: image } = await ensureTestImages());
    town = await Installation.start({ store: 'sqlite' });
    port = await freePort();
    app = await town.createApplication({
      source_type: 'image',
      image_url: image,
      exposed_port: port,
      healthcheck: { type: 'http', path: '/healthz', interval_seconds: 1 },
      replicas: 3,
      max_surge: 2,
      min_healthy_seconds: 1,
      healthy_deadline: 20,
      drain_seconds: 3,
      env: { PORT: String(port), ROUND: '0' },
    });
    await town.deployment((await town.deploy(app.id)).id, 'succeeded', patientMs);
    await settled();
  });
  afterAll(() => town[Symbol.asyncDispose]());

  /** Every instance that shall run is ready, and nothing is left to do. */
  async function settled(): Promise<ApiObject> {
    return town.until(
      'it is settled and running',
      async () => {
        const one = await town.application(app.id);
        const busy = one.conditions?.some((it) => it.type === 'Reconciling' && it.status === 'true');
        const ready = one['ready_replicas'] === one['replicas'];
        return one.status === 'running' && ready && busy !== true && one.observed_generation === one.generation
          ? one
          : undefined;
      },
      patientMs,
    );
  }
  const up = async (): Promise<string[]> => {
    const text = await docker('ps', '--quiet', '--no-trunc', '--filter', `label=setpoint.workload=${app.id}`);
    return text.split('\n').filter((id) => id !== '');
  };

  /** Carries it out under load, and answers with what the users saw. */
  async function underLoad(what: () => Promise<unknown>): Promise<object> {
    const url = `http://127.0.0.1:${port}`;
    await using short = new SteadyLoad({ url: `${url}/slow/20`, perSecond: 60 });
    await using long = new SteadyLoad({ url: `${url}/slow/1500`, perSecond: 5 });
    await using kept = new SteadyLoad({ url: `${url}/slow/5`, perSecond: 20, connections: 6 });
    await what();
    const outcomes = [await short.end(), await long.end(), await kept.end()];
    for (const { sent } of outcomes) expect(sent).toBeGreaterThan(0);
    return Object.assign({}, ...outcomes.map(({ failures }) => failures)) as object;
  }

  const configured = async (env: Record<string, string>): Promise<void> => {
    await town.client.request('PATCH', `${base()}/env`, env);
  };
  const newest = async (status: string): Promise<ApiObject> =>
    town.deployment(String((await town.application(app.id))['deployment_id']), status, patientMs);

  const replaced: readonly [what: string, tags: string[], carryOut: () => Promise<unknown>][] = [
    ['a deployment', [], async () => newestAfter(() => town.deploy(app.id))],
    ['a change of its variables', [longTag], async () => newestAfter(() => configured({ ROUND: '1' }))],
    [
      'a restart',
      [longTag],
      async () => {
        const before = await up();
        await town.client.request('POST', `${base()}/restart`, {});
        await town.until(
          'every container is another one',
          async () => (await up()).every((id) => !before.includes(id)) && (await up()).length === 3,
          patientMs,
        );
      },
    ],
    ['a scale to 5', [], async () => town.client.request('POST', `${base()}/scale`, { replicas: 5 })],
    ['a scale to 2', [], async () => town.client.request('POST', `${base()}/scale`, { replicas: 2 })],
    [
      'a scale to 4 and one to 3',
      [longTag],
      async () => {
        await town.client.request('POST', `${base()}/scale`, { replicas: 4 });
        await settled();
        await town.client.request('POST', `${base()}/scale`, { replicas: 3 });
      },
    ],
    ['a rollback', [longTag], async () => newestAfter(() => town.client.request('POST', `${base()}/rollback`, {}))],
    [
      'a killed agent',
      [longTag],
      async () =>
        newestAfter(async () => {
          await configured({ ROUND: '2' });
          await town.agent.restart();
        }),
    ],
    [
      'a killed control plane',
      [longTag],
      async () =>
        newestAfter(async () => {
          await configured({ ROUND: '3' });
          await town.replicas[0]!.program.restart();
          await town.ready();
        }),
    ],
  ];
  for (const [what, tags, carryOut] of replaced)
    it(`answers every request through ${what}`, { tags, timeout: 2 * patientMs }, async () => {
      const failures = await underLoad(async () => {
        await carryOut();
        await settled();
      });
      expect(failures).toEqual({});
      const replicas = (await town.application(app.id))['replicas'];
      await town.until('what was drained has ended', async () => (await up()).length === replicas, patientMs);
    });

  async function newestAfter(what: () => Promise<unknown>): Promise<void> {
    await what();
    await newest('succeeded');
  }

  it.each<[string, { env?: Record<string, string>; fields?: object }]>([
    ['exits before it is ready', { env: { EXIT_AFTER_MS: '300', LISTEN_AFTER_MS: '600000' } }],
    ['never listens', { env: { LISTEN_AFTER_MS: '600000' } }],
    [
      'answers its health check with an error',
      { fields: { healthcheck: { type: 'http', path: '/env/NOTHING', interval_seconds: 1 } } },
    ],
  ])(
    'answers every request through a release that %s, and returns to what served',
    { tags: [longTag], timeout: 2 * patientMs },
    async (_, { env, fields }) => {
      const before = await up();
      const failures = await underLoad(async () => {
        if (env !== undefined) await configured(env);
        if (fields !== undefined) await change(fields);
        await newest('failed');
        await town.until('it serves as before', async () => (await up()).length === 3, patientMs);
      });
      expect(failures).toEqual({});
      expect((await up()).toSorted()).toEqual(before.toSorted());
      const serving = String((await town.application(app.id))['current_deployment_id']);
      await newestAfter(() => town.client.request('POST', `${base()}/rollback`, { deployment_id: serving }));
      await settled();
      await town.until('what was drained has ended', async () => (await up()).length === 3, patientMs);
    },
  );

  it(
    'keeps each line of 5,000 per second, in order, through a redeployment',
    { tags: [longTag], timeout: 2 * patientMs },
    async () => {
      const writer = `
      const from = performance.now();
      let sent = 0;
      const timer = setInterval(() => {
        let text = '';
        for (const due = (performance.now() - from) * 5; sent < due; sent++) text += 'line ' + sent + '\\n';
        process.stdout.write(text);
      }, 10);
      process.on('SIGTERM', () => {
        clearInterval(timer);
        process.stdout.write('last ' + sent + '\\n', () => process.exit());
      });
    `;
      const talker = await town.createApplication({
        source_type: 'image',
        image_url: image,
        start_command: `/bin/node -e "${writer.replaceAll(/\s+/g, ' ').replaceAll('\\', '\\\\')}"`,
        healthcheck: { type: 'none' },
        min_healthy_seconds: 5,
        drain_seconds: 0,
      });
      await town.deployment((await town.deploy(talker.id)).id, 'succeeded', patientMs);
      await town.deployment((await town.deploy(talker.id)).id, 'succeeded', patientMs);
      await town.client.request('POST', `/api/v1/applications/${talker.id}/stop`, {});
      await town.until(
        'it is stopped',
        async () => (await town.application(talker.id)).status === 'stopped',
        patientMs,
      );

      const written = new Map<string, string[]>();
      const read = async (): Promise<number> => {
        written.clear();
        for (let cursor: string | null = '0'; cursor !== null;) {
          const path = `/api/v1/applications/${talker.id}/runtime-logs?tail=5000&cursor=${cursor}&stream=stdout`;
          const { lines, next_cursor } = Logs.parse(await town.client.request('GET', path));
          for (const { instance_id, message } of lines) {
            if (!written.has(instance_id)) written.set(instance_id, []);
            written.get(instance_id)?.push(message);
          }
          cursor = lines.length === 0 ? null : next_cursor;
        }
        return [...written.values()].filter((lines) => lines.at(-1)?.startsWith('last ')).length;
      };
      await town.until('both instances have written their last line', async () => (await read()) === 2, patientMs);
      for (const lines of written.values()) {
        const last = lines.pop() ?? '';
        expect(last).toBe(`last ${lines.length}`);
        expect(lines.findIndex((line, index) => line !== `line ${index}`)).toBe(-1);
        expect(lines.length).toBeGreaterThan(5 * 5_000);
      }
    },
  );
});
