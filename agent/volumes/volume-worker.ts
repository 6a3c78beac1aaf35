import { blankReport } from '../../agent-protocol/assignment.ts';
import type { WireAssignment, WireReport, WireVolume } from '../../agent-protocol/assignment.ts';
import type { FailureCode } from '../../agent-protocol/failure-codes.ts';
import type { Worker, WorkerDeps } from '../desired/worker.ts';
import { deadline } from '../runtime/deadline.ts';
import type { ContainerRuntime } from '../runtime/runtime.ts';
import { labels, RuntimeFailure } from '../runtime/runtime.ts';
import type { MadeVolumes } from './made-volumes.ts';

type VolumeItem = WireAssignment & { spec: WireVolume };

/** What all volume workers of an agent share. */
export interface VolumeDeps extends WorkerDeps {
  runtime: Pick<ContainerRuntime, 'ensureVolume' | 'openVolume' | 'volume' | 'removeVolume'>;
  server: string;
  made: MadeVolumes;
  /** The volume is there, which was not so before, or not known. */
  appeared: (volume: string) => void;
}

const callMs = 60_000;
/** A volume may be removed by hand: how often the agent looks whether it is there. */
const lookMs = 60_000;
/** Time until the next try after a failure, and until the next look for a volume that is lost. */
const retryMs = 5_000;

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
  #isStale = true;
  #running: Promise<void> | undefined;
  #cancelTimer: () => void = () => undefined;

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
    this.#isStale = true;
    this.#running ??= this.#run().finally(() => {
      this.#running = undefined;
    });
  }

  desire(desired: WireAssignment | undefined): void {
    this.#desired = desired !== undefined && isVolume(desired) ? desired : undefined;
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
    await this.#running;
  }

  async #run(): Promise<void> {
    while (this.#isStale && !this.#isClosing()) {
      this.#isStale = false;
      this.#cancelTimer();
      const desired = this.#desired;
      let ms = lookMs;
      try {
        this.#sendReport(await this.#reconcile(desired));
        if (this.#seen === 'lost') ms = retryMs;
      } catch (error) {
        if (this.#isClosing()) return;
        ms = retryMs;
        this.#failed(desired, error);
      }
      if (this.#isClosing()) return;
      if (desired !== undefined) this.#cancelTimer = this.#deps.clock.timer(ms, () => this.wake());
    }
  }

  #isClosing(): boolean {
    return this.#closing.signal.aborted;
  }

  async #reconcile(desired: VolumeItem | undefined): Promise<WireReport> {
    const { runtime, server, made, clock } = this.#deps;
    if (desired === undefined) return { ...this.#blank(), phase: 'stopped', gone: true };
    const { volume } = desired.spec;
    using limit = deadline(clock, callMs, 'Checking a volume', this.#closing.signal);
    if (desired.run === 'stopped') {
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

  #lost(): WireReport {
    this.#seen = 'lost';
    const code: FailureCode = 'data_lost';
    const message =
      'The volume was removed from its server, and its data with it. Put it back from a copy, or delete it and create another one';
    return { ...this.#blank(), phase: 'failed', error: { code, message } };
  }

  #failed(desired: VolumeItem | undefined, error: unknown): void {
    const { log } = this.#deps;
    log.warn({ err: error, assignment: this.id }, 'Cannot create, check or remove a volume: the agent tries again');
    if (desired === undefined || !(error instanceof RuntimeFailure)) return;
    // It stays as ready as it was: an engine that does not answer shows nothing about the data.
    const { phase = 'pending', ready = false, stable = false } = this.#report ?? {};
    const now = desired.run === 'stopped' ? ('stopping' as const) : phase;
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
  return item.spec.type === 'volume';
}
