import type { Clock } from '../../time/clock.ts';
import { floorBytes, type DiskSpace } from '../disk/disk-guard.ts';
import { RuntimeFailure } from '../runtime/runtime.ts';
import type { BuildItem } from './build-task.ts';

const watchMs = 2_000;
/** The space of a build that ended is free again after this time. */
const freedMs = 30_000;
/** The disk is nearly full with so many times the space that must stay free. */
const nearly = 2;
/** A build that wrote less does not fill the disk. */
const leastBytes = 1024 ** 3;

interface Deps {
  disk: () => Promise<DiskSpace>;
  /** Bytes that the builds of a project that run now have written. */
  writes: (project: string) => Promise<number>;
  clock: Clock;
}

/**
 * Ends of several builds the one that wrote the most when the disk is nearly full, so that it does not take the others
 * with it. The space that must stay free ends them all, and a single one: that is not watched here.
 */
export class BuildRoom {
  readonly #deps: Deps;
  readonly #running = new Map<BuildItem, AbortController>();
  #cancel: () => void = () => undefined;
  #endedAt = -Infinity;

  constructor(deps: Deps) {
    this.#deps = deps;
  }

  /** Watches a build until disposal. The signal aborts with RuntimeFailure `no_space`. */
  watch(item: BuildItem): { signal: AbortSignal } & Disposable {
    const full = new AbortController();
    this.#running.set(item, full);
    if (this.#running.size === 1) this.#schedule();
    return {
      signal: full.signal,
      [Symbol.dispose]: () => {
        this.#running.delete(item);
        if (this.#running.size === 0) this.#cancel();
      },
    };
  }

  #schedule(): void {
    this.#cancel();
    this.#cancel = this.#deps.clock.timer(watchMs, () => {
      // What cannot be measured now is measured in the next round.
      void this.#look()
        .catch(() => undefined)
        .finally(() => {
          if (this.#running.size > 0) this.#schedule();
        });
    });
  }

  async #look(): Promise<void> {
    const { disk, writes, clock } = this.#deps;
    if (this.#running.size < 2 || clock.monotonic() - this.#endedAt < freedMs) return;
    const { freeBytes, totalBytes } = await disk();
    if (freeBytes >= nearly * floorBytes(totalBytes)) return;
    const builds = await Promise.all(
      [...this.#running].map(async ([item, full]) => ({ item, full, bytes: await writes(item.project_id) })),
    );
    const [most] = builds.toSorted((a, b) => b.bytes - a.bytes);
    if (most === undefined || most.bytes < leastBytes || !this.#running.has(most.item)) return;
    this.#endedAt = clock.monotonic();
    const written = Math.round(most.bytes / 1024 ** 2);
    const message = `Cannot go on building image ${most.item.spec.image} as the server's disk is nearly full and this build wrote the most of those that run, ${written} MiB: free space on it, or let the build write less`;
    most.full.abort(new RuntimeFailure('no_space', message, { retryable: true }));
  }
}
