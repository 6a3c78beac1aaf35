import { mkdtemp, open, rm } from 'node:fs/promises';
import type { FileHandle } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pino } from 'pino';
import { instanceValues, sampledForMs, sampleMs, serverValues } from '../agent-protocol/metrics.ts';
import { MetricStore } from '../agent/metrics/metric-store.ts';
import { slotBytes } from '../agent/metrics/ring.ts';
import { sampleForm, seriesBytes } from '../agent/metrics/series.ts';
import { systemClock } from '../time/clock.ts';
import type { Bench } from './bench.ts';
import { timed } from './measure.ts';

const workload = 'a0000000-0000-4000-8000-000000000000';
const instances = 50;
/** Times of measurement in each round: with all rounds together less than an hour. */
const ticks = 80;
const reads = 10;

export const bench: Bench = {
  id: 'P18',
  async run({ compare }) {
    const folder = await mkdtemp(join(tmpdir(), 'setpoint-bench-'));
    await using stack = new AsyncDisposableStack();
    stack.defer(() => rm(folder, { recursive: true, force: true }));
    const log = pino({ level: 'silent' });
    const store = stack.use(await MetricStore.open({ folder: join(folder, 'metrics'), clock: systemClock, log }));
    const files: FileHandle[] = [];
    for (let n = 0; n <= instances; n += 1) {
      const file = stack.use(await open(join(folder, `raw-${n}`), 'w+'));
      await file.truncate(seriesBytes);
      files.push(file);
    }

    const server = Object.fromEntries(serverValues.map((name, n) => [name, n + 0.5]));
    const values = Object.fromEntries(instanceValues.map((name, n) => [name, n + 0.5]));
    const measured = Array.from({ length: instances }, (_, n) => ({ workload, instance: `i-${n}`, values }));
    const slot = Buffer.alloc(slotBytes(sampleForm));
    let at = Date.now() - sampledForMs;
    let place = 0;
    await compare({
      what: `samples of a server and ${instances} instances that are kept; raw: as many writes to as many files`,
      unit: 'per s',
      raw: async () =>
        perSecond(ticks * files.length, async () => {
          for (let tick = 0; tick < ticks; tick += 1) {
            place = (place + slot.length) % (seriesBytes - slot.length);
            for (const file of files) await file.write(slot, 0, slot.length, place);
          }
        }),
      ours: () =>
        perSecond(ticks * files.length, async () => {
          for (let tick = 0; tick < ticks; tick += 1) await store.record((at += sampleMs), server, measured);
        }),
    });
    await compare({
      what: `an hour of a workload with ${instances} instances in steps of 5 s, read; raw: their files`,
      unit: 'ms',
      raw: async () => {
        const bytes = Buffer.alloc(seriesBytes);
        const ms = await timed(async () => {
          for (let n = 0; n < reads; n += 1) for (const file of files) await file.read(bytes, 0, seriesBytes, 0);
        });
        return ms / reads;
      },
      ours: async () => {
        const [until, signal] = [Date.now(), new AbortController().signal];
        const query = { workload_id: workload, since: until - sampledForMs, until, step_ms: sampleMs };
        const ms = await timed(async () => {
          for (let n = 0; n < reads; n += 1) await store.read(query, signal);
        });
        return ms / reads;
      },
    });
  },
};

async function perSecond(pieces: number, work: () => Promise<void>): Promise<number> {
  return (pieces * 1000) / (await timed(work));
}
