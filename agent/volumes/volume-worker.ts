import { blankReport } from '../../agent-protocol/assignment.ts';
import type { WireAssignment, WireCopiedVolume, WireReport, WireVolume } from '../../agent-protocol/assignment.ts';
import type { FailureCode } from '../../agent-protocol/failure-codes.ts';
import { Coalesced } from '../../time/coalesced.ts';
import { Paced } from '../tasks/paced.ts';
import type { Worker, WorkerDeps } from '../desired/worker.ts';
import { deadline } from '../runtime/deadline.ts';
import type { VolumeArchiver } from '../engine/volume-archiver.ts';
import type { ContainerRuntime } from '../runtime/runtime.ts';
import { labels, RuntimeFailure } from '../runtime/runtime.ts';
import type { MadeVolumes } from './made-volumes.ts';
import type { CopyProgress, VolumeCopies } from './volume-copies.ts';

type VolumeItem = WireAssignment & { spec: WireVolume | WireCopiedVolume };

/** What all volume workers of an agent share. */
export interface VolumeDeps extends WorkerDeps {
  runtime: Pick<ContainerRuntime, 'ensureVolume' | 'openVolume' | 'volume' | 'removeVolume'>;
  server: string;
  made: MadeVolumes;
  copies: VolumeCopies;
  archiver: Pick<VolumeArchiver, 'isRead'>;
  /** The volume is there, which was not so before, or not known. */
  appeared: (volume: string) => void;
}

const callMs = 60_000;
/** A volume may be removed by hand: how often the agent looks whether it is there. */
const lookMs = 60_000;
/**
 * Time until the next try after a failure, until the next look for a volume that is lost, and for one that waits for its
 * original.
 */
const retryMs = 5_000;
/**
 * A copy that failed, or was of what was written to meanwhile, is made again after a time that doubles up to this: each
 * try reads all of the original.
 */
const mostRetryMs = 5 * 60_000;
/** Each report of how far a copy is is a write of the control plane. */
const progressEveryMs = 5_000;

/**
 * Keeps one volume on the server. Its data is removed only by `run: 'stopped'`; an item that is only dropped leaves the
 * volume as it is, so that no loss of records can remove data. A volume that was there and is gone is reported as
 * `data_lost` and never made again: only another volume can take its place, also one of its name that was made by hand.
 */
export class VolumeWorker implements Worker {
  readonly id: string;
  /** Always false: a volume writes no lines. */
  readonly ended = false;
  readonly #deps: VolumeDeps;
  readonly #closing = new AbortController();
  #desired: VolumeItem | undefined;
  #report: WireReport | undefined;
  /** What the last look at it showed; absent before the first one. */
  #seen: 'there' | 'lost' | undefined;
  readonly #looks = new Coalesced(() => this.#look());
  #cancelTimer: () => void = () => undefined;
  /** Aborted when another state is desired. */
  #round = new AbortController();
  /** Name of the volume whose copy was begun and is not made. */
  #unfinished: string | undefined;
  /** Why it is not copied before that time. */
  #held: { error: unknown; until: number } | undefined;
  /** Copies that were begun in vain one after another. */
  #failures = 0;

  constructor(id: string, deps: VolumeDeps) {
    this.id = id;
    this.#deps = deps;
  }

  get report(): WireReport | undefined {
    return this.#report;
  }

  get settled(): boolean {
    return this.#report !== undefined;
  }

  start(): void {
    this.wake();
  }

  wake(): void {
    this.#looks.ask();
  }

  desire(desired: WireAssignment | undefined): void {
    const before = this.#desired;
    this.#desired = desired !== undefined && isVolume(desired) ? desired : undefined;
    if (workOf(before) === workOf(this.#desired)) return this.wake();
    if (before?.spec.volume !== this.#desired?.spec.volume) this.#seen = undefined;
    this.#held = undefined;
    this.#round.abort(new Error('Another state is desired'));
    this.wake();
  }

  acknowledged(): void {
    // Volumes have no events.
  }

  overflowed(): void {
    // What a volume holds is bounded by its disk.
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#closing.abort(new Error('The agent is stopping'));
    this.#cancelTimer();
    await this.#looks[Symbol.asyncDispose]();
  }

  async #look(): Promise<void> {
    this.#cancelTimer();
    this.#round = new AbortController();
    const desired = this.#desired;
    let ms = lookMs;
    try {
      this.#sendReport(await this.#reconcile(desired, this.#round.signal));
      this.#failures = 0;
      if (this.#seen === 'lost') ms = retryMs;
    } catch (error) {
      // another look follows at once, or none
      if (this.#isClosing() || this.#round.signal.aborted) return;
      const isNew = this.#held?.error !== error;
      ms = isNew ? this.#retryAfter(desired, error) : this.#heldMs;
      this.#failed(desired, error, isNew);
    }
    if (this.#isClosing()) return;
    if (desired !== undefined) this.#cancelTimer = this.#deps.clock.timer(ms, () => this.wake());
  }

  #isClosing(): boolean {
    return this.#closing.signal.aborted;
  }

  async #reconcile(desired: VolumeItem | undefined, round: AbortSignal): Promise<WireReport> {
    const { runtime, server, made, copies, archiver, clock } = this.#deps;
    if (desired === undefined) {
      await this.#dropUnfinished();
      return { ...this.#blank(), phase: 'stopped', gone: true };
    }
    const { volume } = desired.spec;
    if (desired.run === 'running' && desired.spec.type === 'copied_volume' && !made.has(volume)) {
      await this.#copy(desired, desired.spec, AbortSignal.any([this.#closing.signal, round]));
    }
    using limit = deadline(clock, callMs, 'Checking a volume', this.#closing.signal);
    if (desired.run === 'stopped') {
      await copies.discard(volume, limit.signal);
      this.#unfinished = undefined;
      if (archiver.isRead(volume))
        throw new RuntimeFailure('in_use', 'A backup reads the volume: it is removed once that has ended', {
          retryable: true,
        });
      await runtime.removeVolume(volume, { alsoUnlabelled: made.has(volume) }, limit.signal);
      await made.removed(volume);
      this.#seen = undefined;
      return { ...this.#blank(), phase: 'stopped' };
    }
    if (!made.has(volume)) {
      await runtime.ensureVolume(volume, { [labels.server]: server, [labels.tenant]: desired.tenant }, limit.signal);
      await made.made(volume);
    } else {
      const found = await runtime.volume(volume, limit.signal);
      if (found === undefined) return this.#lost();
      // Only then is it known to be made by hand: what an image did to an empty volume stays.
      const isReplaced =
        this.#seen === 'lost' || (this.#seen === undefined && found.labels[labels.server] === undefined);
      if (isReplaced) await runtime.openVolume(volume, limit.signal);
    }
    if (this.#seen !== 'there') this.#deps.appeared(volume);
    this.#seen = 'there';
    return { ...this.#blank(), phase: 'running', ready: true, stable: true };
  }

  async #copy(desired: VolumeItem, { volume, copy_from: from }: WireCopiedVolume, signal: AbortSignal): Promise<void> {
    const { server, made, copies, clock } = this.#deps;
    this.#unfinished = volume;
    if (this.#held !== undefined && this.#heldMs > 0) throw this.#held.error;
    const show = (at: CopyProgress | undefined): void => {
      const progress = { step: 'copying', ...(at !== undefined && { ...at, unit: 'bytes' }) };
      if (!signal.aborted) this.#sendReport({ ...this.#blank(), phase: 'preparing', progress });
    };
    using paced = new Paced<CopyProgress | undefined>(clock, progressEveryMs, show);
    const ours = { [labels.server]: server, [labels.tenant]: desired.tenant };
    try {
      await copies.make({ volume, from: from.docker_volume, labels: ours }, (at) => paced.next(at), {
        signal,
        closing: this.#closing.signal,
      });
      await made.made(volume);
    } catch (error) {
      if (signal.aborted || error instanceof RuntimeFailure) throw error;
      // without it, the last report would be that it is being copied
      const reason = error instanceof Error ? error.message : String(error);
      const message = `The agent cannot copy Docker volume ${from.docker_volume}: ${reason}`;
      throw new RuntimeFailure('copy_failed', message, { retryable: true, cause: error });
    }
    this.#unfinished = undefined;
  }

  /** The item was dropped while its copy was made: only what was copied goes. */
  async #dropUnfinished(): Promise<void> {
    if (this.#unfinished === undefined) return;
    using limit = deadline(this.#deps.clock, callMs, 'Removing an unfinished copy', this.#closing.signal);
    await this.#deps.copies.discard(this.#unfinished, limit.signal);
    this.#unfinished = undefined;
  }

  /** Time until the next try. A copy is not tried before, whatever wakes the worker: each try may read all of it. */
  #retryAfter(desired: VolumeItem | undefined, error: unknown): number {
    if (this.#unfinished === undefined || desired?.run !== 'running') return retryMs;
    const wasOnlyLookedAt = isWaiting(error) && this.#report?.phase !== 'preparing';
    const ms = wasOnlyLookedAt ? retryMs : Math.min(retryMs * 2 ** this.#failures++, mostRetryMs);
    this.#held = { error, until: this.#deps.clock.monotonic() + ms };
    return ms;
  }

  get #heldMs(): number {
    return Math.max(0, (this.#held?.until ?? 0) - this.#deps.clock.monotonic());
  }

  #lost(): WireReport {
    this.#seen = 'lost';
    const code: FailureCode = 'data_lost';
    const message =
      'The volume was removed from its server, and its data with it. Put it back from a copy, or delete it and create another one';
    return { ...this.#blank(), phase: 'failed', error: { code, message } };
  }

  #failed(desired: VolumeItem | undefined, error: unknown, isNew: boolean): void {
    const { log } = this.#deps;
    if (isNew && !isWaiting(error))
      log.warn({ err: error, assignment: this.id }, 'Cannot create, check or remove a volume: the agent tries again');
    if (desired === undefined || !(error instanceof RuntimeFailure)) return;
    // It stays as ready as it was: an engine that does not answer shows nothing about the data.
    const { phase = 'pending', ready = false, stable = false } = this.#report ?? {};
    const last = phase === 'preparing' ? ('pending' as const) : phase;
    const now = desired.run === 'stopped' ? ('stopping' as const) : last;
    this.#sendReport({
      ...this.#blank(),
      phase: now,
      ready,
      stable,
      error: { code: error.code, message: error.message },
    });
  }

  #blank(): Omit<WireReport, 'phase'> {
    const { desired } = this.#deps;
    const generation =
      this.#desired?.generation ?? desired.tombstone(this.id)?.generation ?? this.#report?.generation ?? 0;
    return blankReport({ id: this.id, generation });
  }

  #sendReport(report: WireReport): void {
    if (JSON.stringify(this.#report) === JSON.stringify(report)) return;
    this.#report = report;
    this.#deps.reported(report);
  }
}

function isVolume(item: WireAssignment): item is VolumeItem {
  return item.spec.type === 'volume' || item.spec.type === 'copied_volume';
}

/** What of an item a copy that is under way is for. */
function workOf(item: VolumeItem | undefined): string {
  return item === undefined ? '' : JSON.stringify([item.run, item.spec]);
}

function isWaiting(error: unknown): boolean {
  return error instanceof RuntimeFailure && error.code === 'copy_waits';
}
