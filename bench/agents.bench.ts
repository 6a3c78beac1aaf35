import { generateKeyPairSync } from 'node:crypto';
import { mkdir, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { setTimeout as delay } from 'node:timers/promises';
import { z } from 'zod';
import { systemClock } from '../time/clock.ts';
import { openStore } from '../store/open.ts';
import { openRepository } from '../store/repo.ts';
import { freePort } from '../test/harness/program.ts';
import { until } from '../test/harness/until.ts';
import type { Bench } from './bench.ts';
import { Child } from './child.ts';
import { logIn } from './control-plane.ts';
import { percentile } from './measure.ts';
import { usageOf } from './process-figures.ts';
import type { AgentsArgument, AgentsMethods } from './programs/agents.ts';
import { seedApplication, seedMany, seedProject, seedServer } from './seed.ts';
import { startServer } from './server-process.ts';

const count = 500;
const perAgent = 10;
const timeoutMs = 300_000;
/** After this time without a write, the store is at rest. */
const quietMs = 12_000;
const idleMs = 20_000;
const betweenRequestsMs = 20;

export const bench: Bench = {
  id: 'P8, P9',
  async run({ compareAll }) {
    const folder = await mkdtemp(join(tmpdir(), 'setpoint-bench-'));
    try {
      const path = join(folder, 'store.db');
      const agents = await seed(path);
      const what = `${count} agents with ${count * perAgent} assignments`;
      await compareAll({
        figures: {
          connectS: { what: `${count} agents connect for the first time`, unit: 's' },
          deployPerSecond: { what: `their ${count * perAgent} deployments, from none to all succeeded`, unit: 'per s' },
          memory: { what: `${what}, idle: resident memory`, unit: 'MB', goal: { atMost: 300 } },
          cpu: { what: 'the same: share of one core', unit: '%', goal: { atMost: 10 } },
          writes: { what: 'the same: writes to the store within 20 s', unit: 'writes', goal: { atMost: 0 } },
          againS: {
            what: 'the control plane was killed: all are back, from its start',
            unit: 's',
            goal: { atMost: 30 },
          },
          p99: { what: 'API meanwhile: read of one application, p99', unit: 'ms', goal: { atMost: 100 } },
        },
        rounds: 1,
        warmUps: 0,
        ours: () => measureInstallation(folder, path, agents),
      });
    } finally {
      await rm(folder, { recursive: true, force: true });
    }
  },
};

async function measureInstallation(data: string, path: string, agents: AgentsArgument['agents']) {
  const port = await freePort();
  await using starting = new AsyncDisposableStack();
  let server = starting.use(await startServer(port, data));
  const token = await logIn(server.url);
  const argument: AgentsArgument = { url: `${server.url}/default`, agents };
  const children = starting.use(await Child.start<AgentsMethods>('agents', argument));

  const begun = performance.now();
  await children.call('start');
  await until('all are welcomed', async () => (await children.call('welcomed')) === count, { timeoutMs });
  const connectS = secondsSince(begun);
  const running = `${server.url}/default/api/v1/applications?status=running&limit=1`;
  const isRunning = async (): Promise<boolean> => (await totalOf(running, token)) === count * perAgent;
  await until('all are deployed', isRunning, { timeoutMs, everyMs: 200 });
  const deployPerSecond = (count * perAgent) / secondsSince(begun);

  await comeToRest(path);
  const [before, revision] = [await usageOf(server.pid), revisionOf(path)];
  await delay(idleMs);
  const after = await usageOf(server.pid);
  const cpu = ((after.cpuSeconds - before.cpuSeconds) * 100_000) / idleMs;
  const writes = revisionOf(path) - revision;

  await server.stop('SIGKILL');
  await children.call('forget');
  const killed = performance.now();
  server = starting.use(await startServer(port, data));
  const reading = new AbortController();
  const times = readInTurn(await oneOf(server.url, token), token, reading.signal);
  await until('all are welcomed again', async () => (await children.call('welcomed')) === count, { timeoutMs });
  const againS = secondsSince(killed);
  reading.abort();
  const p99 = percentile(await times, 0.99);
  return { connectS, deployPerSecond, memory: after.memoryMb, cpu, writes, againS, p99 };
}

/** Creates servers with the keys of their agents, and applications that should run on them. */
async function seed(path: string): Promise<AgentsArgument['agents']> {
  await mkdir(join(path, '..'), { recursive: true });
  await using store = await openStore(`sqlite:${path}`);
  const repository = openRepository(store, 'default', systemClock);
  const place = await seedProject(repository);
  const agents = Array.from({ length: count }, () => {
    const { privateKey, publicKey } = generateKeyPairSync('ed25519');
    return {
      server: crypto.randomUUID(),
      publicKey: publicKey.export({ format: 'jwk' }).x ?? '',
      privateKey: privateKey.export({ type: 'pkcs8', format: 'pem' }).toString(),
    };
  });
  const ids = agents.map(({ server: id, publicKey }) => ({ id, publicKey }));
  await seedMany(repository, count, (unit, n) => seedServer(unit, ids[n] ?? { id: '', publicKey: '' }, n));
  await seedMany(repository, count * perAgent, (unit, n) => {
    const server = ids[n % count]?.id ?? '';
    seedApplication(unit, { ...place, server }, n, { deployed: true });
  });
  return agents;
}

/** Resolves when nothing was written for `quietMs`. */
async function comeToRest(path: string): Promise<void> {
  let last = revisionOf(path);
  let since = performance.now();
  await until(
    'the store is at rest',
    async () => {
      const now = revisionOf(path);
      if (now !== last) since = performance.now();
      last = now;
      return performance.now() - since > quietMs;
    },
    { timeoutMs, everyMs: 500 },
  );
}

/** Reads the revision directly from the file, while another process uses it. */
function revisionOf(path: string): number {
  const db = new DatabaseSync(path, { readOnly: true });
  const row = db.prepare("SELECT v FROM meta WHERE k = 'revision'").get();
  db.close();
  return Number(row?.['v']);
}

const Page = z.object({ data: z.array(z.object({ id: z.string() })), meta: z.object({ total: z.number() }) });

async function page(url: string, token: string): Promise<z.infer<typeof Page>> {
  const answer = await fetch(url, { headers: { authorization: `Bearer ${token}` } });
  return Page.parse(await answer.json());
}

async function totalOf(url: string, token: string): Promise<number> {
  return (await page(url, token)).meta.total;
}

async function oneOf(url: string, token: string): Promise<string> {
  const { data } = await page(`${url}/default/api/v1/applications?limit=1`, token);
  return `${url}/default/api/v1/applications/${data[0]?.id ?? ''}`;
}

/** Sends one request after the other, with pauses. When the signal aborts, resolves with the milliseconds of each. */
async function readInTurn(url: string, token: string, signal: AbortSignal): Promise<number[]> {
  const times: number[] = [];
  while (!signal.aborted) {
    const start = performance.now();
    const answer = await fetch(url, { headers: { authorization: `Bearer ${token}` } });
    await answer.arrayBuffer();
    if (!answer.ok) throw new Error(`Answered ${answer.status}`);
    times.push(performance.now() - start);
    await delay(betweenRequestsMs);
  }
  return times;
}

function secondsSince(start: number): number {
  return (performance.now() - start) / 1000;
}
