import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { z } from 'zod';
import { freePort } from '../test/harness/program.ts';
import { until } from '../test/harness/until.ts';
import { comeToRest, revisionOf } from './at-rest.ts';
import type { Bench } from './bench.ts';
import { Child } from './child.ts';
import { logIn } from './control-plane.ts';
import { seedAgents, timed } from './many-agents.ts';
import { percentile } from './measure.ts';
import { usageOf } from './process-figures.ts';
import type { AgentsArgument, AgentsMethods } from './programs/agents.ts';
import { startServer } from './server-process.ts';

const count = 500;
const perAgent = 10;
const timeoutMs = 300_000;
const idleMs = 20_000;
const betweenRequestsMs = 20;

export const bench: Bench = {
  id: 'P8, P9',
  async run({ compareAll }) {
    const folder = await mkdtemp(join(tmpdir(), 'setpoint-bench-'));
    try {
      const path = join(folder, 'store.db');
      const agents = await seedAgents(`sqlite:${path}`, { count, perAgent });
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
          settledS: {
            what: '… and each has its set, and its complete report is stored',
            unit: 's',
            goal: { atMost: 30 },
          },
          p99: { what: 'API meanwhile: read of one application, p99', unit: 'ms', goal: { atMost: 100 } },
          writeP99: { what: 'API meanwhile: change of a project, p99', unit: 'ms', goal: { atMost: 300 } },
          writesAgain: { what: 'writes to the store meanwhile, without those changes', unit: 'writes' },
          peak: { what: 'most resident memory of the control plane until then', unit: 'MB', goal: { atMost: 512 } },
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
  const asking = new AbortController();
  const revisionAtStart = revisionOf(path);
  const one = await oneOf(server.url, 'applications', token);
  const project = await oneOf(server.url, 'projects', token);
  const reads = timed(() => ask(one, token), betweenRequestsMs, asking.signal);
  let changes = 0;
  const change = () => ask(project, token, { description: `change ${changes++}` });
  const changing = timed(change, 10 * betweenRequestsMs, asking.signal);
  await until('all are welcomed again', async () => (await children.call('welcomed')) === count, { timeoutMs });
  const againS = secondsSince(killed);
  await until('all have settled again', async () => (await children.call('settled')) === count, { timeoutMs });
  const settledS = secondsSince(killed);
  asking.abort();
  const [p99, writeP99] = [percentile(await reads, 0.99), percentile(await changing, 0.99)];
  const writesAgain = revisionOf(path) - revisionAtStart - changes;
  const { peakMb: peak } = await usageOf(server.pid);
  const idle = { memory: after.memoryMb, cpu, writes };
  return { connectS, deployPerSecond, ...idle, againS, settledS, p99, writeP99, writesAgain, peak };
}

const Page = z.object({ data: z.array(z.object({ id: z.string() })), meta: z.object({ total: z.number() }) });

async function page(url: string, token: string): Promise<z.infer<typeof Page>> {
  const answer = await fetch(url, { headers: { authorization: `Bearer ${token}` } });
  return Page.parse(await answer.json());
}

async function totalOf(url: string, token: string): Promise<number> {
  return (await page(url, token)).meta.total;
}

async function oneOf(url: string, kind: string, token: string): Promise<string> {
  const { data } = await page(`${url}/default/api/v1/${kind}?limit=1`, token);
  return `${url}/default/api/v1/${kind}/${data[0]?.id ?? ''}`;
}

/** Reads what is at the URL, or changes it. */
async function ask(url: string, token: string, body?: object): Promise<void> {
  const headers = { authorization: `Bearer ${token}`, 'content-type': 'application/json' };
  const change = body === undefined ? {} : { method: 'PUT', body: JSON.stringify(body) };
  const answer = await fetch(url, { headers, ...change });
  await answer.arrayBuffer();
  if (!answer.ok) throw new Error(`Answered ${answer.status}`);
}

function secondsSince(start: number): number {
  return (performance.now() - start) / 1000;
}
