import type { Logger } from 'pino';
import type { Clock } from '../../time/clock.ts';
import { anonymousVolumes } from '../runtime/anonymous.ts';
import { deadline } from '../runtime/deadline.ts';
import type { DiskSpace } from '../disk/disk-guard.ts';
import type { Observer } from './observer.ts';
import type { ContainerRuntime, MountDetail } from '../runtime/runtime.ts';
import { labels } from '../runtime/runtime.ts';

const gibibyte = 1024 ** 3;
const share = 0.1;
const leastBytes = gibibyte;
const mostBytes = 20 * gibibyte;

/** Bytes that a container may write into its own layer: a tenth of the disk, at least 1 GiB and at most 20 GiB. */
export function storageLimit(totalBytes: number): number {
  return Math.round(Math.min(mostBytes, Math.max(leastBytes, totalBytes * share)));
}

/** Interval of measurements. They are expensive: the engine walks the files of a layer. */
const everyMs = 60_000;
/** Interval at which the free space of the disk is read, which costs nothing. */
const glanceMs = 5_000;
const callMs = 60_000;

/**
 * Measures what running containers wrote into their own layers and into volumes of their images, one after the other: every minute, and sooner if the
 * free space fell by as much as one container may write. Only containers that were made with a limit are measured.
 */
export class StorageWatch {
  readonly #deps: Deps;
  readonly #closing = new AbortController();
  #measuredAt: number;
  /** Free bytes of the disk at the last measurement. */
  #freeBytes = 0;
  #cancel: () => void = () => undefined;
  #running: Promise<void> = Promise.resolve();

  constructor(deps: Deps) {
    this.#deps = deps;
    this.#measuredAt = deps.clock.monotonic();
    this.#schedule();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#closing.abort(new Error('The agent is stopping'));
    this.#cancel();
    await this.#running;
  }

  #schedule(): void {
    if (this.#closing.signal.aborted) return;
    this.#cancel = this.#deps.clock.timer(glanceMs, () => {
      this.#running = this.#glance().finally(() => this.#schedule());
    });
  }

  async #glance(): Promise<void> {
    const { clock, disk, log } = this.#deps;
    try {
      const { freeBytes, totalBytes } = await disk();
      const isDue = clock.monotonic() - this.#measuredAt >= everyMs;
      if (!isDue && this.#freeBytes - freeBytes < storageLimit(totalBytes)) return;
      this.#measuredAt = clock.monotonic();
      this.#freeBytes = freeBytes;
      await this.#measureAll();
    } catch (error) {
      if (!this.#closing.signal.aborted)
        log.warn(
          { err: error },
          'Cannot measure the disk, nor what containers wrote: their storage limits do not hold until that succeeds',
        );
    }
  }

  async #measureAll(): Promise<void> {
    const { observer, exceeded, log } = this.#deps;
    for (const assignment of observer.assignments())
      for (const { container, detail } of observer.of(assignment)) {
        const limit = Number(container.labels[labels.storage] ?? 0);
        if (container.state !== 'running' || limit <= 0) continue;
        try {
          const volumes = detail === undefined ? [] : anonymousVolumes(detail);
          const written = await this.#measure(container.id, volumes);
          if (written !== undefined && written.bytes > limit)
            exceeded(assignment, { container: container.id, ...written, limit });
        } catch (error) {
          // The observer logs that the engine does not answer.
          if (this.#closing.signal.aborted || !observer.reachable) return;
          log.warn(
            { err: error, assignment, container: container.id },
            'Cannot measure what a container wrote: its storage limit does not hold until that succeeds',
          );
        }
      }
  }

  /** What a container wrote that goes with it: into its own layer, and into volumes that its image asks for. */
  async #measure(id: string, volumes: readonly MountDetail[]): Promise<Pick<Overflow, 'bytes' | 'volume'> | undefined> {
    const { runtime, clock } = this.#deps;
    using call = deadline(clock, callMs, 'Measuring what a container wrote', this.#closing.signal);
    let bytes = await runtime.written(id, call.signal);
    if (bytes === undefined) return undefined;
    let most = bytes;
    let volume: string | undefined;
    for (const { source, path } of volumes) {
      const used = (await runtime.volumeUsage(source, call.signal)) ?? 0;
      bytes += used;
      if (used <= most) continue;
      most = used;
      volume = path;
    }
    return { bytes, ...(volume !== undefined && { volume }) };
  }
}

/** A container that wrote more than its limit. */
export interface Overflow {
  container: string;
  bytes: number;
  limit: number;
  /** Path of the volume of its image that has the most of it; absent: it is in the container itself. */
  volume?: string;
}

interface Deps {
  runtime: Pick<ContainerRuntime, 'written' | 'volumeUsage'>;
  observer: Pick<Observer, 'assignments' | 'of' | 'reachable'>;
  disk: () => Promise<DiskSpace>;
  exceeded: (assignment: string, overflow: Overflow) => void;
  clock: Clock;
  log: Logger;
}
