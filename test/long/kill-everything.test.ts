import { randomInt, randomUUID } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { z } from 'zod';
import { Refused, StreamCut } from '../../cli/client.ts';
import type { ApiObject, Client } from '../../cli/client.ts';
import { labels } from '../../agent/runtime/runtime.ts';
import { EngineProxy } from '../harness/engine-proxy.ts';
import { containersWith, docker, instancesOf } from '../harness/engine.ts';
import { Installation } from '../harness/installation.ts';
import { processesWith } from '../harness/processes.ts';
import { freePort } from '../harness/program.ts';
import { ensureTestImages } from '../harness/test-image.ts';
import { within } from '../harness/within.ts';

const killingMs = Number(process.env['KILL_MINUTES'] ?? 2) * 60_000;
/** When the killing is over, everything has settled within this time. */
const settledMs = 120_000;
/** Number of last accepted deployments that are asked for in the end: the history of an application has a bound. */
const askedFor = 10;

const Made = z.object({ sessionId: z.string() });
const LogPage = z.object({
  lines: z.array(z.object({ message: z.string() })),
  next_cursor: z.string(),
  more: z.boolean(),
});
const Metrics = z.object({ points: z.array(z.object({ cpu: z.object({ percent: z.number().nullable() }) })) });

interface Service {
  app: ApiObject;
  port: number;
}

/** What came of the work of one user: how often it was done, and how often it was refused or lost its answer. */
interface Tally {
  done: number;
  away: number;
}

describe('two replicas, their etcd, an agent, its engine and its containers, each killed at random again and again', () => {
  let town: Installation;
  let engine: EngineProxy;
  let folder: string;
  let image: string;
  const mark = `9${randomUUID().replaceAll(/\D/g, '').slice(0, 8)}`;
  const over = new AbortController();

  beforeAll(async () => {
    ({ http: image } = await ensureTestImages());
    folder = await mkdtemp(join(tmpdir(), 'setpoint-kill-'));
    engine = new EngineProxy(join(folder, 'docker.sock'));
    await engine.open();
    town = await Installation.start({
      store: 'etcd',
      replicas: 2,
      agentFlags: ['--docker-socket', engine.path],
    });
  });
  afterAll(async () => {
    await town[Symbol.asyncDispose]();
    await engine[Symbol.asyncDispose]();
    await rm(folder, { recursive: true });
  });

  const clients = (): Client => town.clientAt(randomInt(town.replicas.length));

  async function service(): Promise<Service> {
    const port = await freePort();
    const web = { exposed_port: port, healthcheck_path: '/healthz', env: { PORT: String(port), ROUND: '0' } };
    const app = await town.createApplication({ source_type: 'image', image_url: image, ...web });
    await town.deployment((await town.deploy(app.id)).id, 'succeeded', 90_000);
    return { app, port };
  }

  /** Does the work again and again until the killing is over. What is away or refused for now is counted. */
  async function again(work: () => Promise<unknown>): Promise<Tally> {
    const tally: Tally = { done: 0, away: 0 };
    while (!over.signal.aborted) {
      if (await forNow(work)) tally.done++;
      else tally.away++;
      await delay(200);
    }
    return tally;
  }

  /** Kills one thing after the other, at instants that nothing else knows, and starts it again. */
  async function killAtRandom(steady: Service): Promise<Record<string, number>> {
    const etcd = town.etcd;
    if (etcd === undefined) throw new Error('The installation has an etcd');
    const pause = (mostMs: number): Promise<void> => delay(randomInt(mostMs));
    const victims: Record<string, () => Promise<void>> = {
      'replica 0': () => restart(0),
      'replica 1': () => restart(1),
      agent: async () => {
        await town.agent.kill();
        await pause(5000);
        town.agent.start();
      },
      etcd: async () => {
        await etcd.kill();
        await pause(3000);
        etcd.launch();
        await etcd.ready();
      },
      // The containers and their records go on, as with `live-restore`; other tests use the same engine.
      engine: async () => {
        await engine.close();
        await pause(5000);
        await engine.open();
      },
      container: async () => {
        for (const id of await instancesOf(steady.app.id)) await docker('kill', id).catch(() => undefined); // it may be gone
      },
    };
    const restart = async (index: number): Promise<void> => {
      await town.replicas[index]?.program.kill();
      await pause(5000);
      town.replicas[index]?.program.start();
    };
    const names = Object.keys(victims);
    const counts: Record<string, number> = Object.fromEntries(names.map((name) => [name, 0]));
    let left: string[] = []; // of this turn, in which each is killed once
    while (!over.signal.aborted) {
      await pause(8000);
      if (left.length === 0) left = [...names];
      const [name = ''] = left.splice(randomInt(left.length), 1);
      await victims[name]?.();
      counts[name] = (counts[name] ?? 0) + 1;
    }
    return counts;
  }

  it('end as everything was wanted, with each line once, and nothing left behind', async () => {
    const [changing, steady, talker] = [await service(), await service(), await service()];
    const lifeOf = async ({ app }: Service): Promise<string> =>
      docker('inspect', '--format', '{{.Id}} {{.State.StartedAt}}', ...(await instancesOf(app.id)));
    const talkersLife = await lifeOf(talker);
    const server = `/api/v1/servers/${town.server.id}`;
    let round = 0;
    const accepted: { round: number; deployment: string }[] = [];
    let sent = 0;
    const answered: string[] = [];

    const users: Record<string, () => Promise<unknown>> = {
      deploys: async () => {
        const client = clients();
        const path = `/api/v1/applications/${changing.app.id}`;
        const next = ++round;
        await client.object('PUT', path, { env: { PORT: String(changing.port), ROUND: String(next) } });
        const deployment = await client.object('POST', `${path}/deploy`, {});
        accepted.push({ round: next, deployment: deployment.id });
        await delay(randomInt(6000));
      },
      'comes and goes': async () => {
        const wanted = {
          project_id: town.project.id,
          environment_id: town.environment.id,
          server_id: town.server.id,
          name: `brief-${randomUUID().slice(0, 8)}`,
          source_type: 'image',
          image_url: image,
        };
        // An answer may be lost after the work is done: the key makes one application of all tries.
        const key = { 'idempotency-key': randomUUID() };
        const made = await inTheEnd(() => clients().object('POST', '/api/v1/applications', wanted, key));
        const path = `/api/v1/applications/${made.id}`;
        await forNow(() => clients().object('POST', `${path}/deploy`, {}));
        await delay(randomInt(4000));
        await inTheEnd(async () => {
          await clients()
            .request('DELETE', path)
            .catch((error: unknown) => {
              if (!(error instanceof Refused && error.status === 404)) throw error;
            });
        });
      },
      writes: async () => {
        const line = `line-${sent++}`;
        const answer = await fetch(`http://127.0.0.1:${talker.port}/log/${line}`);
        if (answer.ok) answered.push(line);
      },
      'reads logs': () =>
        within(
          'a stream of logs ends or is left',
          (async () => {
            const left = AbortSignal.any([over.signal, AbortSignal.timeout(randomInt(500, 10_000))]);
            for await (const frame of clients().stream('/ws/logs', { tail: '10' }, left))
              if (left.aborted) return frame;
            return undefined;
          })(),
          60_000,
        ),
      'reads metrics': () => clients().request('GET', `${server}/metrics?since=5m`),
      heals: async () => {
        await clients().request('GET', `${server}/diagnose`);
        await clients().request('POST', `${server}/heal`, { checks: ['log_storage'] });
      },
      types: async () => {
        const client = clients();
        const made = Made.parse(await client.request('POST', `${server}/terminal`, { shell: '/bin/sh' }));
        const socket = await client.socket(`/ws/terminal/${made.sessionId}`, {});
        const closed = new Promise<void>((resolve) => socket.on('close', () => resolve()));
        socket.on('error', () => undefined);
        socket.resume();
        const leave = randomInt(2) === 0;
        socket.send(JSON.stringify({ type: 'input', data: `sleep ${mark}${leave ? '' : ' & exit'}\r` }));
        if (leave) setTimeout(() => socket.terminate(), randomInt(3000)).unref();
        await within('the terminal ends', closed, 90_000);
      },
    };
    const working = Object.entries(users).map(async ([name, work]) => [name, await again(work)] as const);
    const killing = killAtRandom(steady);
    const all = Promise.all([killing, Promise.all(working)]);
    try {
      await Promise.race([delay(killingMs), all]);
    } finally {
      over.abort();
    }
    const [killed, tallies] = await all;
    console.log(
      `killed ${JSON.stringify(killed)}; users ${JSON.stringify(Object.fromEntries(tallies))}; lines ${answered.length}`,
    );
    for (const [name, { done }] of tallies) expect(done, name).toBeGreaterThan(0);
    for (const [name, times] of Object.entries(killed)) expect(times, name).toBeGreaterThan(0);

    for (const [index, { program }] of town.replicas.entries()) {
      if (!program.isRunning) program.start();
      await town.ready(index);
    }
    const inTime = <T>(what: string, probe: () => Promise<T | undefined | false>) => town.until(what, probe, settledMs);
    for (const { deployment } of accepted.slice(-askedFor))
      await inTime('an accepted deployment has ended', async () => {
        const it = await town.client.object('GET', `/api/v1/deployments/${deployment}`);
        // Superseded also by one whose request was carried out although its answer was lost.
        return ['succeeded', 'superseded', 'cancelled'].includes(it.status ?? '');
      });
    await inTime('what is wanted runs and is said to, and nothing else', async () => {
      const apps = await town.client.list('/api/v1/applications');
      if (apps.length !== 3 || apps.some(({ status }) => status !== 'running')) return false;
      const said = await Promise.all(apps.map(({ id }) => town.client.list(`/api/v1/applications/${id}/instances`)));
      if (said.some((instances) => instances.length !== 1 || instances[0]?.['ready'] !== true)) return false;
      const running = await Promise.all(apps.map(({ id }) => instancesOf(id)));
      if (running.some((containers) => containers.length !== 1)) return false;
      return (await containersWith(labels.server, town.server.id)).length === 3;
    });
    const answer = await fetch(`http://127.0.0.1:${changing.port}/env/ROUND`);
    expect(Number(await answer.text())).toBeGreaterThanOrEqual(accepted.at(-1)?.round ?? 1);
    expect((await fetch(`http://127.0.0.1:${steady.port}/healthz`)).ok).toBe(true);
    expect(await lifeOf(talker)).toBe(talkersLife);

    const stored = async (): Promise<string[]> => {
      const lines: string[] = [];
      for (let cursor = '0', more = true; more;) {
        const query = new URLSearchParams({ search: 'line-', tail: '5000', cursor }).toString();
        const page = LogPage.parse(await town.client.request('GET', `${server}/logs?${query}`));
        lines.push(...page.lines.map(({ message }) => message));
        ({ next_cursor: cursor, more } = page);
      }
      return lines;
    };
    await inTime('the last line is stored', async () => (await stored()).includes(answered.at(-1) ?? 'none'));
    const lines = await stored();
    expect(lines.filter((line, index) => lines.indexOf(line) !== index)).toEqual([]);
    const wasAnswered = new Set(answered);
    expect(lines.filter((line) => wasAnswered.has(line))).toEqual(answered);
    await inTime('no program of a terminal is left', async () => (await processesWith(`sleep\0${mark}`)).length === 0);
    await inTime('measurements go on', async () => {
      const { points } = Metrics.parse(await town.client.request('GET', `${server}/metrics?since=1m`));
      return typeof points.at(-1)?.cpu.percent === 'number';
    });
    const it = await town.client.object('GET', server);
    expect(it).toMatchObject({ status: 'active', agent_status: 'connected' });
    for (const program of [town.agent, ...town.replicas.map((it) => it.program)])
      expect((await program.log()).split('\n').filter((line) => /is a bug|"status":500/.test(line))).toEqual([]);
  }, 1_500_000);
});

/** Whether the work was done; false if it may succeed later. */
async function forNow(work: () => Promise<unknown>): Promise<boolean> {
  try {
    await work();
    return true;
  } catch (error) {
    if (!isForNow(error)) throw error;
    return false;
  }
}

/** Tries until the work is done. */
async function inTheEnd<T>(work: () => Promise<T>): Promise<T> {
  for (;;) {
    try {
      return await work();
    } catch (error) {
      if (!isForNow(error)) throw error;
    }
    await delay(500);
  }
}

/** Whether the work may succeed later: something is away, the request lost its answer, or another one is first. */
function isForNow(error: unknown): boolean {
  if (error instanceof Refused) return [404, 409, 429, 503].includes(error.status);
  if (error instanceof StreamCut) return true;
  if (!(error instanceof Error)) return false;
  return (
    error.name === 'AbortError' ||
    error.name === 'TimeoutError' ||
    /Cannot reach|Lost the connection|fetch failed|socket|ECONN|closed/.test(error.message)
  );
}
