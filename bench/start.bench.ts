import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { cp, mkdir, mkdtemp, rm } from 'node:fs/promises';
import { request } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { systemClock } from '../store/clock.ts';
import { openStore } from '../store/open.ts';
import { openRepository } from '../store/repo.ts';
import { freePort } from '../test/harness/program.ts';
import type { Bench } from './bench.ts';
import { usageOf } from './process-figures.ts';
import { seedApplication, seedMany, seedProject } from './seed.ts';

const setpoint = new URL('../cli/setpoint', import.meta.url).pathname;
const bare = new URL('programs/http.ts', import.meta.url).pathname;
const timeoutMs = 60_000;
/** A start leaves garbage behind; what is left after that time is what is kept. */
const idleMs = 3_000;

export const bench: Bench = {
  id: 'P10, P11',
  async run({ compareAll, compare }) {
    const folder = await mkdtemp(join(tmpdir(), 'setpoint-bench-'));
    try {
      for (const { objects, goalMs } of [
        { objects: 0, goalMs: 700 },
        { objects: 5_000, goalMs: 2_000 },
      ]) {
        const seeded = join(folder, `seed-${objects}`);
        await seed(seeded, objects);
        let runs = 0;
        await compareAll({
          figures: {
            ms: {
              what: `start of the process until /readyz says 200, ${objects} objects; raw: a bare node:http server`,
              unit: 'ms',
              goal: { atMost: goalMs, of: 'ours' },
            },
          },
          raw: async () => ({ ms: await startAndStop((port) => [process.execPath, bare, String(port)]) }),
          ours: async () => {
            const data = join(folder, `run-${objects}-${(runs += 1)}`);
            await cp(seeded, data, { recursive: true });
            return { ms: await startAndStop((port) => serverArgv(port, data)) };
          },
        });
      }
      const data = join(folder, 'idle');
      await seed(data, 0);
      await compare({
        what: 'resident memory of an idle control plane',
        unit: 'MB',
        goal: { atMost: 110 },
        rounds: 1,
        warmUps: 0,
        ours: () => idleMemory(data),
      });
    } finally {
      await rm(folder, { recursive: true, force: true });
    }
  },
};

function serverArgv(port: number, data: string): string[] {
  return [setpoint, 'server', '--listen', `127.0.0.1:${port}`, '--data', data, '--log-level', 'error'];
}

/** Applications that were never deployed, as their controller leaves them. */
async function seed(data: string, objects: number): Promise<void> {
  await mkdir(data, { recursive: true });
  if (objects > 0) {
    await using store = await openStore(`sqlite:${join(data, 'store.db')}`);
    const repository = openRepository(store, 'default', systemClock);
    const place = { ...(await seedProject(repository)), server: crypto.randomUUID() };
    await seedMany(repository, objects, (unit, n) => seedApplication(unit, place, n, { deployed: false }));
  }
  // the first start makes keys and observes everything: what is measured is a restart
  await using server = await start((port) => serverArgv(port, data));
  await delay(objects > 0 ? 5_000 : 500);
  await server.stop();
}

async function startAndStop(argv: (port: number) => string[]): Promise<number> {
  await using server = await start(argv);
  return server.ms;
}

async function idleMemory(data: string): Promise<number> {
  await using server = await start((port) => serverArgv(port, data));
  await delay(idleMs);
  return (await usageOf(server.pid)).memoryMb;
}

interface Started extends AsyncDisposable {
  pid: number;
  /** From the start of the process to its first answer of 200. */
  ms: number;
  stop(): Promise<void>;
}

async function start(argv: (port: number) => string[]): Promise<Started> {
  const port = await freePort();
  const begun = performance.now();
  const [program = '', ...rest] = argv(port);
  const child = spawn(program, rest, { stdio: 'inherit' });
  const stop = async (): Promise<void> => {
    if (child.exitCode !== null || child.signalCode !== null) return;
    const exited = once(child, 'exit');
    child.kill('SIGTERM');
    await exited;
  };
  while (!(await answers(port))) {
    if (child.exitCode !== null || performance.now() - begun > timeoutMs) throw new Error('The server did not start');
    await delay(1);
  }
  return { pid: child.pid ?? 0, ms: performance.now() - begun, stop, [Symbol.asyncDispose]: stop };
}

function answers(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const asked = request({ host: '127.0.0.1', port, path: '/readyz', agent: false }, (answer) => {
      answer.resume();
      resolve(answer.statusCode === 200);
    });
    asked.on('error', () => resolve(false));
    asked.end();
  });
}
