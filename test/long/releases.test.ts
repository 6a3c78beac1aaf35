import { randomInt, randomUUID } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { ApiObject, Refused } from '../../cli/client.ts';
import { docker, instancesOf } from '../harness/engine.ts';
import { Installation } from '../harness/installation.ts';
import { freePort } from '../harness/program.ts';
import { seeded } from '../harness/seeded.ts';
import { SteadyLoad } from '../harness/steady-load.ts';
import { ensureCaddyImage, ensureTestImages } from '../harness/test-image.ts';
import { askHost } from '../harness/through-proxy.ts';

/** How often each kind of change is carried out. */
const each = Number(process.env['RELEASES'] ?? 25);
/** Requests per second of all users together. */
const perSecond = Number(process.env['RELEASES_PER_SECOND'] ?? 500);
/** The same seed makes the same changes in the same order, and kills at the same instants. */
const seed = Number(process.env['RELEASES_SEED'] ?? randomInt(2 ** 31));
const patientMs = 120_000;
/** A write waits while the only instance that may write to the volume is replaced. */
const writeMs = 60_000;
const host = 'released.example.test';

type Kind = 'deployment' | 'restart' | 'scaling' | 'rollback';
type Victim = 'agent' | 'control plane';
interface Change {
  kind: Kind;
  victim: Victim | undefined;
  /** Sent a second time at once. */
  isTwice: boolean;
}

/** Of each kind, one in five is met by a kill, of the agent and of the control plane in turn; one deployment in four is two. */
function changesOf(kind: Kind): Change[] {
  return Array.from({ length: each }, (_, n) => ({
    kind,
    victim: n % 10 === 0 ? 'agent' : n % 10 === 5 ? 'control plane' : undefined,
    isTwice: kind === 'deployment' && n % 4 === 1,
  }));
}

interface Shape {
  name: string;
  fields: (image: string) => Record<string, unknown>;
  /** Instances beside those that get the requests. */
  others: number;
  /** The path of a write that is kept in a volume. */
  write?: string;
}

const composeFile = (image: string): string => `
services:
  web:
    image: ${image}
    environment: {ROUND: '\${ROUND}'}
    ports: ['\${PORT}:8080']
    depends_on: [store]
  store:
    image: ${image}
    environment: {COUNT_FILE: /data/count}
    volumes: ['data:/data']
volumes: {data: {}}
`;

const shapes: Shape[] = [
  {
    name: 'an image',
    fields: (image) => ({ source_type: 'image', image_url: image }),
    others: 0,
  },
  {
    name: 'a compose file with two services and a volume',
    fields: (image) => ({
      source_type: 'compose',
      compose_file: composeFile(image),
      compose_service: 'web',
    }),
    others: 1,
    write: '/to/store:8080/count',
  },
];

describe.each(shapes)(`a replicated application of $name under load, seed ${seed}`, ({ fields, others, write }) => {
  let town: Installation;
  let app: ApiObject;
  let port: number;
  let httpPort: number;
  let round = 0;
  let superseded = 0;
  const random = seeded(seed);
  const below = (most: number): number => Math.floor(random.uniform() * most);
  const base = (): string => `/api/v1/applications/${app.id}`;

  beforeAll(async () => {
    const { http: image } = await ensureTestImages();
    const caddy = await ensureCaddyImage();
    port = await freePort();
    httpPort = await freePort();
    town = await Installation.start({ store: 'sqlite', serverFlags: ['--ingress-image', caddy] });
    await town.client.object('PUT', `/api/v1/servers/${town.server.id}`, {
      ingress: { http_port: httpPort, https_port: await freePort() },
    });
    const ofShape = fields(image);
    app = await town.createApplication({
      ...ofShape,
      ...(ofShape['source_type'] === 'image' && { exposed_port: port }),
      domains: [{ host, tls: 'off' }],
      healthcheck: {
        type: 'http',
        path: '/healthz',
        port: ofShape['source_type'] === 'image' ? port : 8080,
        interval_seconds: 1,
      },
      replicas: 2,
      max_surge: 3,
      min_healthy_seconds: 1,
      healthy_deadline: 60,
      drain_seconds: 3,
      env: { PORT: String(port), ROUND: '0' },
    });
    for (let first = 0; first < 2; first++)
      await town.deployment((await town.deploy(app.id)).id, 'succeeded', patientMs);
    await town.until(
      'its domain leads to it',
      async () => (await askHost(`http://${host}/`, httpPort)).status === 200,
      patientMs,
    );
  });
  afterAll(() => town[Symbol.asyncDispose]());

  /** Carries out a request that may lose its answer, once. */
  async function ask(method: 'POST' | 'PATCH', path: string, body: object): Promise<unknown> {
    const key = { 'idempotency-key': randomUUID() };
    const { answer } = await town.until(
      `${path} is accepted`,
      async () => {
        try {
          return { answer: await town.client.request(method, `${base()}${path}`, body, key) };
        } catch (error) {
          if (error instanceof Refused && error.status < 500) throw new Error(`${path}: ${error.message}`);
          throw error;
        }
      },
      patientMs,
    );
    return answer;
  }

  /** Every instance that shall run is ready, and nothing but drains is left to do. */
  async function settled(): Promise<void> {
    await town.until(
      'it is settled and running',
      async () => {
        const one = await town.application(app.id);
        const busy = one.conditions?.some((it) => it.type === 'Reconciling' && it.status === 'true');
        const isReady = one['ready_replicas'] === one['replicas'] && one.observed_generation === one.generation;
        if (one.status !== 'running' || !isReady || busy === true) return false;
        const newest = await town.client.object('GET', `/api/v1/deployments/${String(one['deployment_id'])}`);
        if (newest.status === 'failed') throw new Error(`Deployment failed: ${JSON.stringify(newest['error'])}`);
        return newest.status === 'succeeded';
      },
      patientMs,
    );
  }

  const changes: Record<Kind, (change: Change) => Promise<void>> = {
    deployment: async ({ isTwice }) => {
      if (!isTwice) {
        await ask('POST', '/deploy', {});
        return settled();
      }
      const both = await Promise.all([ask('POST', '/deploy', {}), ask('POST', '/deploy', {})]);
      await settled();
      const ends = await Promise.all(
        both.map(async (it) => {
          const { id } = ApiObject.parse(it);
          return (await town.client.object('GET', `/api/v1/deployments/${id}`)).status ?? '';
        }),
      );
      expect(ends).toContain('succeeded');
      for (const end of ends) expect(['succeeded', 'superseded']).toContain(end);
      superseded += ends.filter((end) => end === 'superseded').length;
    },
    restart: async () => {
      const before = await instancesOf(app.id);
      await ask('POST', '/restart', {});
      await settled();
      const { replicas } = await town.application(app.id);
      const after = (await instancesOf(app.id)).filter((id) => !before.includes(id));
      expect(after.length, 'instances that were restarted').toBeGreaterThanOrEqual(Number(replicas));
    },
    scaling: async () => {
      const { replicas } = await town.application(app.id);
      await ask('POST', '/scale', { replicas: replicas === 2 ? 3 : 2 });
      await settled();
    },
    rollback: async () => {
      await ask('POST', '/rollback', {});
      await settled();
    },
  };

  /** Kills a program at an instant of the change, and starts it again somewhat later. */
  async function kill(name: Victim): Promise<string> {
    const victim = name === 'agent' ? town.agent : town.replicas[0]!.program;
    const [afterMs, awayMs] = [below(3000), below(3000)];
    await delay(afterMs); // the instant is the point of the test
    await victim.kill();
    await delay(awayMs);
    victim.start();
    await town.ready();
    return `${name} killed after ${afterMs} ms for ${awayMs} ms`;
  }

  /** All changes, in an order of the seed. */
  function shuffled(): Change[] {
    const left = (Object.keys(changes) as Kind[]).flatMap(changesOf); // the keys of the table are the kinds
    return Array.from({ length: left.length }, () => left.splice(below(left.length), 1)).flat();
  }

  async function errorsOfProxy(): Promise<string> {
    const lines = await readFile(join(town.dir, 'agent/ingress/log/access.log'), 'utf8');
    return lines
      .split('\n')
      .filter((line) => /"status":5\d\d/.test(line))
      .slice(-50)
      .join('\n');
  }

  /** Users at the port and by the domain. What is posted is never sent again. */
  function usersOf(stack: AsyncDisposableStack): Record<string, SteadyLoad> {
    const [direct, routed] = [`http://127.0.0.1:${port}`, `http://127.0.0.1:${httpPort}`];
    const share = (of: number): number => Math.round(perSecond * of);
    const load = (url: string, of: number, more: Partial<ConstructorParameters<typeof SteadyLoad>[0]> = {}) =>
      stack.use(new SteadyLoad({ url, perSecond: share(of), ...more }));
    const [body, connections] = ['once', 16];
    return {
      short: load(`${direct}/slow/5`, 0.19),
      kept: load(`${direct}/slow/5`, 0.19, { connections }),
      long: load(`${direct}/slow/1500`, 0.01),
      posted: load(`${direct}/read`, 0.1, { body }),
      proxied: load(`${routed}/slow/5`, 0.14, { host }),
      keptByProxy: load(`${routed}/slow/5`, 0.14, { host, connections }),
      longByProxy: load(`${routed}/slow/1500`, 0.01, { host }),
      postedByProxy: load(`${routed}/read`, 0.1, { host, body }),
      postedKeptByProxy: load(`${routed}/read`, 0.09, { host, body, connections }),
      longPostedByProxy: load(`${routed}/slow/1500`, 0.01, { host, body }),
      ...(write !== undefined && {
        written: load(`${direct}${write}`, 0.01, { body, timeoutMs: writeMs }),
        writtenByProxy: load(`${routed}${write}`, 0.01, { host, body, timeoutMs: writeMs }),
      }),
    };
  }

  it(
    'answers every request through deployments, restarts, scalings and rollbacks, while its programs are killed',
    async () => {
      await using stack = new AsyncDisposableStack();
      const loads = usersOf(stack);
      const failures = (): string =>
        JSON.stringify(Object.fromEntries(Object.entries(loads).map(([name, load]) => [name, load.outcome.failures])));

      const order = shuffled();
      const from = performance.now();
      const broken: string[] = [];
      let kills = 0;
      let before = failures();
      for (const [done, change] of order.entries()) {
        if (change.kind === 'deployment' && done % 2 === 0) await ask('PATCH', '/env', { ROUND: String(++round) });
        if (change.victim !== undefined) kills++;
        const [killed] = await Promise.all([
          change.victim === undefined ? 'nothing killed' : kill(change.victim),
          changes[change.kind](change),
        ]);
        const after = failures();
        if (after !== before) {
          broken.push(`change ${done}, ${change.kind}, ${killed}: ${after}`);
          console.log(broken.at(-1));
        }
        before = after;
        if (done % 20 === 19)
          console.log(
            `${done + 1} changes, ${kills} kills, ${Math.round((performance.now() - from) / 1000)} s, ${after}`,
          );
      }
      const seconds = (performance.now() - from) / 1000;
      const ends = await Promise.all(Object.values(loads).map((load) => load.end()));
      const sent = ends.reduce((sum, it) => sum + it.sent, 0);
      console.log(
        `${order.length} changes, ${superseded} superseded, ${kills} kills, ${sent} requests in ${seconds.toFixed(0)} s`,
      );
      if (broken.length > 0) console.log(`What the proxy answered with errors:\n${await errorsOfProxy()}`);
      expect(broken).toEqual([]);
      for (const { sent: own, failures: why } of ends) {
        expect(why).toEqual({});
        expect(own).toBeGreaterThan(0);
      }
      // A generator that is starved would prove nothing.
      expect(sent / seconds).toBeGreaterThan(perSecond * 0.95);
      expect(superseded, 'deployments that another one superseded').toBeGreaterThan(0);

      const { replicas } = await town.application(app.id);
      await town.until(
        'what was drained has ended',
        async () => (await instancesOf(app.id)).length === Number(replicas) + others,
        patientMs,
      );
      const running = await docker('ps', '--quiet', '--filter', `label=setpoint.workload=${app.id}`);
      expect(running.split('\n')).toHaveLength(Number(replicas) + others);
      if (write !== undefined) {
        const acknowledged = (loads['written']?.outcome.sent ?? 0) + (loads['writtenByProxy']?.outcome.sent ?? 0);
        const [store] = await town.client.list(`${base()}/instances`, { service: 'store' });
        const kept = Number(await docker('exec', String(store?.['container_id']), '/bin/cat', '/data/count'));
        console.log(`${acknowledged} writes were acknowledged, ${kept} are kept`);
        expect(kept).toBeGreaterThanOrEqual(acknowledged);
      }
      for (const program of [town.agent, town.replicas[0]!.program])
        expect((await program.log()).split('\n').filter((line) => /is a bug|"status":500/.test(line))).toEqual([]);
    },
    (10 + 4 * each) * 60_000,
  );
});
