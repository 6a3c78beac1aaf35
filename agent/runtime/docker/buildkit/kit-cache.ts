import { z } from 'zod';
import type { Engine } from '../engine.ts';

const Pruned = z.object({ SpaceReclaimed: z.number().nullish() });
/** The engine removes one layer after the other. */
const pruneMs = 110_000;

/**
 * Removes what no build needs from the cache of BuildKit, used the longest ago first, until it has at most so many
 * bytes. Returns how many bytes went.
 */
export async function trimBuildCache(engine: Engine, keptBytes: number, signal: AbortSignal): Promise<number> {
  const query = { all: true, 'keep-storage': Math.max(1, Math.floor(keptBytes)) };
  const call = { method: 'POST', path: ['build', 'prune'], query, timeoutMs: pruneMs } as const;
  return Pruned.parse((await engine.call(call, signal)) ?? {}).SpaceReclaimed ?? 0;
}
