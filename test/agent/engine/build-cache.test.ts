import { pino } from 'pino';
import { expect, test } from 'vitest';
import { BuildCache, cacheLimit } from '../../../agent/engine/build-cache.ts';
import type { Builder } from '../../../agent/runtime/runtime.ts';

const gib = 1024 ** 3;
const signal = AbortSignal.timeout(20_000);

async function trimmed(builder: Builder, builds: number, isFull: boolean): Promise<number[]> {
  const kept: number[] = [];
  const images = Array.from({ length: builds }, (_, n) => ({ id: `sha256:${n}`, names: [], labels: {}, madeAt: 0 }));
  const cache = new BuildCache({
    runtime: {
      builder: async () => builder,
      images: async () => images,
      trimBuildCache: async (bytes) => kept.push(bytes),
    },
    server: 'one',
    disk: async () => ({ freeBytes: 10 * gib, totalBytes: 100 * gib }),
    log: pino({ enabled: false }),
  });
  await cache.trim({ isFull }, signal);
  return kept;
}

test('the cache of builds may have a tenth of the disk, but neither less than 2 GiB nor more than 20 GiB', () => {
  expect([8, 100, 1000].map((size) => cacheLimit(size * gib) / gib)).toEqual([2, 10, 20]);
});

test('the cache is kept below its bound, and emptied where the disk is full', async () => {
  expect(await trimmed({ type: 'buildkit', version: 20 }, 1, false)).toEqual([10 * gib]);
  expect(await trimmed({ type: 'buildkit', version: 20 }, 1, true)).toEqual([0]);
});

test('the cache is left alone where the agent built nothing, or not with BuildKit', async () => {
  expect(await trimmed({ type: 'buildkit', version: 20 }, 0, true)).toEqual([]);
  expect(await trimmed({ type: 'classic' }, 1, true)).toEqual([]);
});
