import type { Logger } from 'pino';
import type { DiskSpace } from '../disk/disk-guard.ts';
import type { ContainerRuntime } from '../runtime/runtime.ts';
import { labels } from '../runtime/runtime.ts';

const gibibyte = 1024 ** 3;
const share = 0.1;
const leastBytes = 2 * gibibyte;
const mostBytes = 20 * gibibyte;

/** Bytes that the cache of builds may keep: a tenth of the disk, at least 2 GiB and at most 20 GiB. */
export function cacheLimit(totalBytes: number): number {
  return Math.round(Math.min(mostBytes, Math.max(leastBytes, totalBytes * share)));
}

interface Deps {
  runtime: Pick<ContainerRuntime, 'builder' | 'images' | 'trimBuildCache'>;
  server: string;
  disk: () => Promise<DiskSpace>;
  log: Logger;
}

/**
 * Bounds the cache of BuildKit on a server whose agent builds. The engine has one cache and does not say whose a part of
 * it is: builds of others lose what they used the longest ago, too, which costs them time.
 */
export class BuildCache {
  readonly #deps: Deps;

  constructor(deps: Deps) {
    this.#deps = deps;
  }

  /** Keeps the cache within its bound; `isFull`: the disk is, and all goes that no build uses. @throws RuntimeFailure */
  async trim({ isFull }: { isFull: boolean }, signal: AbortSignal): Promise<void> {
    const { runtime, server, disk, log } = this.#deps;
    const builder = await runtime.builder(signal);
    if (builder.type !== 'buildkit') return;
    const own = await runtime.images({ [labels.server]: server, [labels.type]: 'build' }, signal);
    if (own.length === 0) return;
    const kept = isFull ? 0 : cacheLimit((await disk()).totalBytes);
    const bytes = await runtime.trimBuildCache(kept, signal);
    if (bytes > 0)
      log.info({ freedMiB: Math.round(bytes / 1024 ** 2), isFull }, 'Removed cache of builds that was used long ago');
  }
}
