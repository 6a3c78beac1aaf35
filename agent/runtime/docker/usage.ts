import { z } from 'zod';
import type { ContainerRuntime, Usage } from '../runtime.ts';
import type { Engine } from './engine.ts';
import { isStatus } from './failure.ts';
import { groupUsage } from './group-usage.ts';

const Counter = z.number().nonnegative();

/** One measurement by the engine. What it does not know, as of a container that does not run, is absent. */
const Stats = z.object({
  cpu_stats: z.object({ cpu_usage: z.object({ total_usage: Counter }) }),
  memory_stats: z.object({
    usage: Counter.optional(),
    stats: z.object({ inactive_file: Counter.optional(), total_inactive_file: Counter.optional() }).optional(),
  }),
  networks: z.record(z.string(), z.object({ rx_bytes: Counter, tx_bytes: Counter })).nullish(),
  blkio_stats: z
    .object({ io_service_bytes_recursive: z.array(z.object({ op: z.string(), value: Counter })).nullish() })
    .nullish(),
});

/**
 * Reads what a container has used from the kernel, and asks the engine where the kernel does not show it, as on a machine
 * that is not the engine's own.
 */
export function usage(engine: Engine): ContainerRuntime['usage'] {
  return async ({ id, pid }, signal) => {
    signal.throwIfAborted();
    return groupUsage(id, pid) ?? (await engineUsage(engine, id, signal));
  };
}

async function engineUsage(engine: Engine, id: string, signal: AbortSignal): Promise<Usage | undefined> {
  // Without `one-shot` the engine waits for a second measurement.
  const query = { stream: false, 'one-shot': true };
  try {
    return usageOf(Stats.parse(await engine.call({ method: 'GET', path: ['containers', id, 'stats'], query }, signal)));
  } catch (error) {
    if (isStatus(error, 404)) return undefined;
    throw error;
  }
}

function usageOf({ cpu_stats, memory_stats, networks, blkio_stats }: z.infer<typeof Stats>): Usage | undefined {
  const { usage: memory, stats } = memory_stats;
  if (memory === undefined) return undefined; // it does not run
  const cache = stats?.inactive_file ?? stats?.total_inactive_file ?? 0;
  const interfaces = networks == null ? undefined : Object.values(networks);
  const io = blkio_stats?.io_service_bytes_recursive ?? undefined;
  const moved = (op: string): number | undefined =>
    io?.filter((it) => it.op.toLowerCase() === op).reduce((sum, it) => sum + it.value, 0);
  return {
    cpuMs: cpu_stats.cpu_usage.total_usage / 1e6,
    memoryBytes: Math.max(0, memory - cache),
    receivedBytes: interfaces?.reduce((sum, it) => sum + it.rx_bytes, 0),
    sentBytes: interfaces?.reduce((sum, it) => sum + it.tx_bytes, 0),
    readBytes: moved('read'),
    writtenBytes: moved('write'),
  };
}
