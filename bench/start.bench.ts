import { cp, mkdir, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { systemClock } from '../time/clock.ts';
import { openStore } from '../store/open.ts';
import { openRepository } from '../store/repo.ts';
import { freePort } from '../test/harness/program.ts';
import type { Bench } from './bench.ts';
import { usageOf } from './process-figures.ts';
import { startProcess, startServer } from './server-process.ts';
import type { ServerProcess } from './server-process.ts';
import { seedApplication, seedMany, seedProject } from './seed.ts';

const bare = new URL('programs/http.ts', import.meta.url).pathname;
/** Wait before memory is measured: a start leaves garbage, which is collected within this time. */
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
              what: `start of the process until /readyz answers 200, ${objects} objects; raw: a bare node:http server`,
              unit: 'ms',
              goal: { atMost: goalMs, of: 'ours' },
            },
          },
          raw: async () => ({
            ms: await startAndStop((port) => startProcess([process.execPath, bare, String(port)], port)),
          }),
          ours: async () => {
            const data = join(folder, `run-${objects}-${(runs += 1)}`);
            await cp(seeded, data, { recursive: true });
            return { ms: await startAndStop((port) => startServer(port, data)) };
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

/** Creates applications that were never deployed, in the state in which their controller leaves them. */
async function seed(data: string, objects: number): Promise<void> {
  await mkdir(data, { recursive: true });
  if (objects > 0) {
    await using store = await openStore(`sqlite:${join(data, 'store.db')}`);
    const repository = openRepository(store, 'default', systemClock);
    const place = { ...(await seedProject(repository)), server: crypto.randomUUID() };
    await seedMany(repository, objects, (unit, n) => seedApplication(unit, place, n, { deployed: false }));
  }
  // The first start makes keys and writes all observed records: the benchmark measures a restart.
  await using server = await startServer(await freePort(), data);
  await delay(objects > 0 ? 5_000 : 500);
  await server.stop();
}

async function startAndStop(start: (port: number) => Promise<ServerProcess>): Promise<number> {
  await using server = await start(await freePort());
  return server.ms;
}

async function idleMemory(data: string): Promise<number> {
  await using server = await startServer(await freePort(), data);
  await delay(idleMs);
  return (await usageOf(server.pid)).memoryMb;
}
