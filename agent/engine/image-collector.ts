import type { Logger } from 'pino';
import type { Clock } from '../../time/clock.ts';
import type { DiskSpace } from '../disk/disk-guard.ts';
import { isImageOfAgent } from '../runtime/foreign.ts';
import type { ContainerRuntime } from '../runtime/runtime.ts';
import { labels, stageType } from '../runtime/runtime.ts';
import type { PulledImages } from './image-store.ts';

/** When images go that nothing needs. */
export const imagePolicy = {
  /** Share of the disk in use from which images go … */
  high: 0.85,
  /** … until less than this share is in use. */
  low: 0.8,
  /** An image that was made, pulled or used within this time stays. */
  leastAgeMs: 3_600_000,
  /** A disk that stays full although nothing is left to remove is logged this often. */
  logEveryMs: 3_600_000,
} as const;

interface Deps {
  runtime: Pick<ContainerRuntime, 'images' | 'image' | 'removeImage'>;
  server: string;
  pulled: PulledImages;
  disk: () => Promise<DiskSpace>;
  clock: Clock;
  log: Logger;
}

/** The name by which all stages of a project are wanted, while one of its builds runs. */
export function stagesOf(given: Readonly<Record<string, string>>): string {
  return `stages of project ${given[labels.project] ?? ''}`;
}

/** What was removed since the agent started. */
export interface Freed {
  images: number;
  bytes: number;
}

/**
 * Removes images of this agent, those used the longest ago first, while the disk is too full. An image is the agent's if
 * it built it, which its labels and its name show, or pulled it when the machine did not have it, which its record shows. What a
 * container uses stays, whichever container that is: the engine refuses.
 */
export class ImageCollector {
  readonly #deps: Deps;
  readonly #freed: Freed = { images: 0, bytes: 0 };
  #loggedAt: number | undefined;

  constructor(deps: Deps) {
    this.#deps = deps;
  }

  get freed(): Readonly<Freed> {
    return this.#freed;
  }

  /** Whether the disk is so full that images are to go. @throws Error if it cannot be measured */
  async isNeeded(): Promise<boolean> {
    return shareUsed(await this.#deps.disk()) >= imagePolicy.high;
  }

  /**
   * Removes images until the disk is below the low mark. `wanted`: ids and digests of those that are needed, and projects
   * whose stages are (`stagesOf`), asked before each removal. Returns how many were removed. @throws RuntimeFailure, or
   * an error of the disk
   */
  async collect(wanted: () => ReadonlySet<string>, signal: AbortSignal): Promise<number> {
    const { runtime, pulled, disk, clock, log } = this.#deps;
    const before = await disk();
    let now = before;
    const gone: string[] = [];
    for (const { id, names } of await this.#candidates(signal)) {
      if (shareUsed(now) < imagePolicy.low) break;
      const isWanted = wanted();
      if (names.some((name) => isWanted.has(name))) continue;
      await runtime.removeImage(id, signal);
      // A container or another name uses it: it is looked at again when it is old again.
      if ((await runtime.image(id, signal)) === undefined) gone.push(id);
      else pulled.used(id, clock.now().getTime());
      now = await disk();
    }
    if (gone.length === 0) {
      this.#logThatFull(now);
      return 0;
    }
    const bytes = Math.max(0, now.freeBytes - before.freeBytes);
    this.#freed.images += gone.length;
    this.#freed.bytes += bytes;
    const shown = { images: gone.length, freedMiB: Math.round(bytes / 1024 ** 2), diskPercent: percentUsed(now) };
    log.info(shown, 'Removed images that nothing needs, as the disk was almost full');
    await pulled.forget(gone);
    return gone.length;
  }

  /** Images of this agent that are old enough, those used the longest ago first. */
  async #candidates(signal: AbortSignal): Promise<{ id: string; names: readonly string[] }[]> {
    const { runtime, server, pulled, clock } = this.#deps;
    const built = (await runtime.images({ [labels.server]: server }, signal)).filter(isImageOfAgent);
    const all = [
      ...built.map(({ id, labels: own, madeAt }) => {
        return { id, names: own[labels.type] === stageType ? [id, stagesOf(own)] : [id], at: madeAt };
      }),
      ...pulled.list().map(({ id, digests, usedAt }) => ({ id, names: [id, ...digests], at: usedAt })),
    ];
    const newest = clock.now().getTime() - imagePolicy.leastAgeMs;
    return all.filter(({ at }) => at <= newest).toSorted((a, b) => a.at - b.at);
  }

  #logThatFull(space: DiskSpace): void {
    const { clock, log } = this.#deps;
    if (shareUsed(space) < imagePolicy.high) return;
    const now = clock.monotonic();
    if (this.#loggedAt !== undefined && now - this.#loggedAt < imagePolicy.logEveryMs) return;
    this.#loggedAt = now;
    log.warn(
      { diskPercent: percentUsed(space), advice: 'Look for what takes room: docker system df, du -xh /var' },
      'The disk is almost full, and the agent has no image that could be removed',
    );
  }
}

function shareUsed({ freeBytes, totalBytes }: DiskSpace): number {
  return totalBytes > 0 ? 1 - freeBytes / totalBytes : 0;
}

function percentUsed(space: DiskSpace): number {
  return Math.round(shareUsed(space) * 100);
}
