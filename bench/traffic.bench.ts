import { appendFile, mkdir, mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pino } from 'pino';
import { windowMs } from '../agent-protocol/traffic.ts';
import { Traffic } from '../agent/ingress/traffic.ts';
import { FakeClock } from '../test/harness/fake-clock.ts';
import { startHostProxy } from '../test/harness/host-proxy.ts';
import { until } from '../test/harness/until.ts';
import type { Bench } from './bench.ts';
import { load } from './http-load.ts';
import { usageOf } from './process-figures.ts';

const host = '127.0.0.1';
const clients = 16;
const runMs = 4_000;
const lines = 50_000;

export const bench: Bench = {
  id: 'P20',
  async run({ compare, compareAll }) {
    await using stack = new AsyncDisposableStack();
    const folder = await mkdtemp(join(tmpdir(), 'setpoint-bench-'));
    stack.defer(() => rm(folder, { recursive: true, force: true }));
    const logged = stack.use(await startHostProxy(join(folder, 'logged'), host));
    const silent = stack.use(await startHostProxy(join(folder, 'silent'), host, { edit: unlogged }));
    const run = async (proxy: { url: string; pid: number }) => {
      const before = await usageOf(proxy.pid);
      const begun = performance.now();
      const { perSecond } = await load(proxy.url, clients, () => ({ method: 'GET', path: '/' }), runMs);
      const requests = (perSecond * (performance.now() - begun)) / 1000;
      const { cpuSeconds } = await usageOf(proxy.pid);
      return { rate: perSecond, cpu: ((cpuSeconds - before.cpuSeconds) * 1_000_000) / requests };
    };
    await compareAll({
      figures: {
        rate: { what: `requests through the proxy, ${clients} clients; raw: without its access log`, unit: 'per s' },
        cpu: { what: 'processor time of the proxy for 1,000 requests; raw: without its access log', unit: 'ms' },
      },
      rounds: 5,
      raw: () => run(silent),
      ours: () => run(logged),
    });

    const line = (await readFile(join(folder, 'logged/log/access.log'), 'utf8')).split('\n')[0] ?? '';
    await compare({
      what: 'processor time of the agent to count 1,000 requests; raw: their lines parsed as JSON',
      unit: 'ms',
      raw: () =>
        Promise.resolve(perThousand(() => void Array.from({ length: lines }, () => JSON.parse(line) as unknown))),
      ours: () => counted(join(folder, 'counted'), line),
    });
  },
};

/** Takes the access log out of a configuration. */
function unlogged(config: string): string {
  const without = config.replaceAll('"logs":{"default_logger_name":"access"},', '');
  if (without === config) throw new Error('The access log was not found in the configuration');
  return without;
}

/** Milliseconds of this process for 1,000 requests. */
async function counted(folder: string, line: string): Promise<number> {
  await rm(folder, { recursive: true, force: true });
  await mkdir(join(folder, 'log'), { recursive: true });
  const clock = new FakeClock();
  const log = pino({ level: 'silent' });
  const paths = { logFolder: join(folder, 'log'), folder: join(folder, 'traffic') };
  await using traffic = new Traffic({ ...paths, ownerOf: () => 'w', clock, log });
  traffic.start();
  const page = () => {
    const to = clock.now().getTime();
    return traffic.read({ workload_id: 'w', since: to - 60_000, until: to, step_ms: windowMs });
  };
  const pass = (isThere: () => boolean) =>
    until('time passes', async () => {
      await clock.advance(1000);
      return isThere();
    });
  await pass(() => page().rows.length > 0);
  const now = line.replace(/"ts":[\d.]+/, `"ts":${clock.now().getTime() / 1000}`);
  await appendFile(join(folder, 'log/access.log'), `${now}\n`.repeat(lines));
  const before = process.cpuUsage();
  await pass(() => page().total.requests === lines);
  const { user, system } = process.cpuUsage(before);
  return (user + system) / lines;
}

function perThousand(work: () => void): number {
  const before = process.cpuUsage();
  work();
  const { user, system } = process.cpuUsage(before);
  return (user + system) / lines;
}
