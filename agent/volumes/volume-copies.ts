import type { Clock } from '../../time/clock.ts';
import { diskGuard, floorBytes, watchDisk } from '../disk/disk-guard.ts';
import type { VolumeCopier } from '../engine/volume-copier.ts';
import { deadline } from '../runtime/deadline.ts';
import type { ContainerRuntime, CopySource } from '../runtime/runtime.ts';
import { RuntimeFailure } from '../runtime/runtime.ts';

/** A volume that is to be a copy. */
export interface Copy {
  /** Names at the engine. */
  volume: string;
  from: string;
  labels: Readonly<Record<string, string>>;
}

export interface CopiesDeps {
  runtime: Pick<ContainerRuntime, 'copySource' | 'volume' | 'ensureVolume' | 'removeVolume'>;
  copier: VolumeCopier;
  clock: Clock;
}

/** When a copy ends before it is made. */
export interface Until {
  /** The volume is not desired any more, or the agent stops. */
  signal: AbortSignal;
  /** The agent stops. Until then, the engine is let make a volume to the end, so that a removal finds it. */
  closing: AbortSignal;
}

/** How far a copy is. */
export interface CopyProgress {
  done: number;
  total: number;
}

/** Containers that a message names. */
const mostNamed = 5;
const removeMs = 180_000;
/** Time within which a copy is made. */
const mostHours = 24;
const never = new AbortController().signal;

/**
 * Makes volumes that begin as copies of volumes that no agent made, one at a time.
 *
 * The copy grows in a volume of its own, and its folder then becomes that of the volume in one step. So a volume of that
 * name is empty or whole, wherever the agent, a program or the machine ended, and an empty one is copied anew: nothing
 * mounts it before it counts as made. The original is only read.
 */
export class VolumeCopies {
  readonly #deps: CopiesDeps;
  /** The volume that is being copied to. */
  #current: string | undefined;

  constructor(deps: CopiesDeps) {
    this.#deps = deps;
  }

  /**
   * Makes the volume with all that its original has.
   * @throws RuntimeFailure `copy_waits`, `copy_refused`, `copy_failed`, `no_space`; the signal's reason, once nothing
   * copies any more
   */
  async make(copy: Copy, progressed: (at: CopyProgress | undefined) => void, until: Until): Promise<void> {
    const { runtime, copier } = this.#deps;
    const { volume, from, labels } = copy;
    const { signal, closing } = until;
    await this.discard(volume, signal);
    if ((await runtime.volume(volume, signal)) !== undefined && !(await copier.isEmpty(volume, signal))) return;
    await this.#requireStill(from, signal);
    if (this.#current !== undefined && this.#current !== volume)
      throw waits('Another volume of the server is copied first');
    this.#current = volume;
    try {
      const staged = stagedName(volume);
      await runtime.ensureVolume(staged, labels, closing);
      try {
        await this.#fillInTime(from, staged, progressed, signal);
        signal.throwIfAborted();
        await runtime.ensureVolume(volume, labels, closing);
        await copier.move(staged, volume, signal);
      } catch (error) {
        // what waits for it removes it, or the next process of the agent
        if (!signal.aborted) await this.#discardInTime(volume);
        throw error;
      }
      await this.discard(volume, signal);
    } finally {
      this.#current = undefined;
    }
  }

  /** Removes what was copied for a volume that is not made. Idempotent. */
  async discard(volume: string, signal: AbortSignal): Promise<void> {
    await this.#deps.runtime.removeVolume(stagedName(volume), {}, signal);
  }

  async #discardInTime(volume: string): Promise<void> {
    using limit = deadline(this.#deps.clock, removeMs, 'Removing an unfinished copy', never);
    // the next try removes it otherwise
    await this.discard(volume, limit.signal).catch(() => undefined);
  }

  /** {@link #fill}, within its deadline. */
  async #fillInTime(
    from: string,
    staged: string,
    progressed: (at: CopyProgress | undefined) => void,
    signal: AbortSignal,
  ): Promise<void> {
    const over = new AbortController();
    const late = `Docker volume ${from} was not copied within ${mostHours} h: look at the load of the server and its disk`;
    const expire = (): void => over.abort(new RuntimeFailure('copy_failed', late, { retryable: true }));
    const cancel = this.#deps.clock.timer(mostHours * 3_600_000, expire);
    try {
      await this.#fill(from, staged, progressed, AbortSignal.any([signal, over.signal]));
    } finally {
      cancel();
    }
  }

  /** Copies while nothing writes to the original. */
  async #fill(
    from: string,
    staged: string,
    progressed: (at: CopyProgress | undefined) => void,
    signal: AbortSignal,
  ): Promise<void> {
    const { copier, clock } = this.#deps;
    progressed(undefined);
    const before = { source: await this.#requireStill(from, signal), content: await copier.content(from, signal) };
    const total = before.content.bytes;
    await this.#requireRoom(from, staged, total, signal);
    const space = diskGuard(() => copier.space(staged, signal));
    using room = watchDisk(space, clock, `go on copying Docker volume ${from}`);
    progressed({ done: 0, total });
    await copier.copy(
      from,
      staged,
      (bytes) => progressed({ done: Math.min(bytes, total), total }),
      AbortSignal.any([signal, room.signal]),
    );
    const after = { source: await this.#requireStill(from, signal), content: await copier.content(from, signal) };
    if (startsOf(before.source) === startsOf(after.source) && before.content.mark === after.content.mark) return;
    throw waits(
      `Docker volume ${from} was written to while it was copied, and is copied again: let nothing write to it until then`,
    );
  }

  /** Returns the original, which nothing that runs can write to. @throws RuntimeFailure `copy_refused`, `copy_waits` */
  async #requireStill(from: string, signal: AbortSignal): Promise<CopySource> {
    const source = await this.#deps.runtime.copySource(from, signal);
    if (source === undefined)
      throw refused(`Docker volume ${from} is not on the server: put it back, or delete this volume`);
    if (source.refusal !== undefined) throw refused(`Docker volume ${from} ${source.refusal}. Delete this volume`);
    const live = source.writers.filter(({ isLive }) => isLive).map(({ name }) => name);
    if (live.length > 0) throw waits(stopThese(from, live.toSorted()));
    return source;
  }

  async #requireRoom(from: string, staged: string, bytes: number, signal: AbortSignal): Promise<void> {
    const { freeBytes, totalBytes } = await this.#deps.copier.space(staged, signal);
    const floor = floorBytes(totalBytes);
    if (freeBytes - bytes >= floor) return;
    const message = `Cannot copy Docker volume ${from} as it has ${inGiB(bytes)} GiB, and of the ${inGiB(freeBytes)} GiB that are free on the server's disk ${inGiB(floor)} GiB must stay free: free space on it`;
    throw new RuntimeFailure('no_space', message, { retryable: true });
  }
}

/** Name of the volume in which a copy grows. */
export function stagedName(volume: string): string {
  return `${volume}-copy`;
}

/** Changes when one of the containers is started. */
function startsOf({ writers }: CopySource): string {
  const ran = writers.filter(({ startedAt }) => startedAt !== '');
  return JSON.stringify(ran.map(({ id, startedAt }) => `${id} ${startedAt}`).toSorted());
}

function stopThese(from: string, names: readonly string[]): string {
  const shown = names.slice(0, mostNamed);
  const further = names.length > mostNamed ? `, and ${names.length - mostNamed} more` : '';
  return `Docker volume ${from} is copied once nothing that runs can write to it. Stop ${shown.join(', ')}${further}: docker update --restart no ${shown.join(' ')} && docker stop ${shown.join(' ')}. What a platform or a swarm started is stopped there`;
}

function inGiB(bytes: number): string {
  return (bytes / 1024 ** 3).toFixed(1);
}

function waits(message: string): RuntimeFailure {
  return new RuntimeFailure('copy_waits', message, { retryable: true });
}

function refused(message: string): RuntimeFailure {
  return new RuntimeFailure('copy_refused', message, { retryable: true });
}
