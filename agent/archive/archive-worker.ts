import { blankReport } from '../../agent-protocol/assignment.ts';
import type { WireAssignment, WireReport } from '../../agent-protocol/assignment.ts';
import type { FailureCode } from '../../agent-protocol/failure-codes.ts';
import type { ArchiveStand } from '../../agent-protocol/workload.ts';
import { wait } from '../../time/clock.ts';
import { Coalesced } from '../../time/coalesced.ts';
import type { Worker, WorkerDeps } from '../desired/worker.ts';
import { RuntimeFailure } from '../runtime/runtime.ts';
import { RequestFailed } from '../transfer/bucket-request.ts';
import type { SentNotes } from './sent-note.ts';
import { Refused } from './shipment.ts';
import type { ArchiveItem, OpenShipment, Shipment } from './shipment.ts';

/** What all archive workers of an agent share. */
export interface ArchiveDeps extends WorkerDeps {
  open: OpenShipment;
  notes: Pick<SentNotes, 'forget'>;
  /** Uniform in [0, 1). */
  random: () => number;
}

/** Between two looks for files that the engine handed over. */
const lookMs = 1_000;
const firstPauseMs = 1_000;
const longestPauseMs = 30_000;
/** Files that wait are no trouble before this time is over. */
const patienceMs = 30_000;

/**
 * Sends the log of writes of a database to its bucket, in its order, as long as it is desired. A file is removed from the
 * server only after the bucket took it by its MD5 and that was noted on the disk; nothing is ever dropped. While the bucket,
 * the control plane or the database does not answer, files wait.
 */
export class ArchiveWorker implements Worker {
  readonly id: string;
  /** Always false: an archive writes no lines. */
  readonly ended = false;
  /** Always true: what waits in a volume holds up nothing. */
  readonly settled = true;
  readonly #deps: ArchiveDeps;
  readonly #closing = new AbortController();
  #desired: ArchiveItem | undefined;
  #report: WireReport | undefined;
  #round = new AbortController();
  readonly #looks = new Coalesced(() => this.#look());
  #stand: ArchiveStand | undefined;

  constructor(id: string, deps: ArchiveDeps) {
    this.id = id;
    this.#deps = deps;
  }

  get report(): WireReport | undefined {
    return this.#report;
  }

  start(): void {
    this.wake();
  }

  wake(): void {
    this.#looks.ask();
  }

  desire(desired: WireAssignment | undefined): void {
    const before = workOf(this.#desired);
    this.#desired = desired?.spec.type === 'archive' ? { ...desired, spec: desired.spec } : undefined;
    if (before !== workOf(this.#desired)) this.#round.abort(new Error('Another state is desired'));
    this.wake();
  }

  acknowledged(): void {
    // Archives have no events.
  }

  overflowed(): void {
    // An archive has no container.
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#closing.abort(new Error('The agent is stopping'));
    await this.#looks[Symbol.asyncDispose]();
  }

  async #look(): Promise<void> {
    this.#round = new AbortController();
    const desired = this.#desired;
    const signal = AbortSignal.any([this.#closing.signal, this.#round.signal]);
    try {
      await (desired?.run === 'running' ? this.#archive(desired, signal) : this.#rest(desired));
    } catch (error) {
      if (this.#closing.signal.aborted) return;
      const { clock, log } = this.#deps;
      log.warn({ err: error, assignment: this.id }, 'An archive could not be put aside: the agent tries again');
      await wait(clock, firstPauseMs, signal).catch(() => undefined); // what is desired since comes at once
      this.wake();
    }
  }

  /** Nothing is sent; what waits stays in its volume. */
  async #rest(desired: ArchiveItem | undefined): Promise<void> {
    if (desired === undefined) await this.#deps.notes.forget(this.id);
    this.#sendReport({ ...this.#blank(), phase: 'stopped', ...(desired === undefined && { gone: true }) });
  }

  /** Goes on until the signal aborts. */
  async #archive(item: ArchiveItem, signal: AbortSignal): Promise<void> {
    const { clock, random, log, open } = this.#deps;
    let shipment: Shipment | undefined;
    let failures = 0;
    let since = clock.monotonic();
    const isOver = (): boolean => signal.aborted;
    while (!isOver()) {
      let pause = lookMs;
      try {
        shipment ??= await open(item, signal);
        await shipment.turn(signal);
        failures = 0;
        since = clock.monotonic();
        await this.#show(shipment, undefined);
      } catch (error) {
        if (isOver()) break;
        failures += 1;
        if (failures === 1)
          log.warn({ err: error, assignment: this.id }, 'The log of a database waits: the agent tries again');
        if (error instanceof Refused || clock.monotonic() - since >= patienceMs || this.#report === undefined)
          await this.#show(shipment, error);
        // what was opened may be another one by now
        if (!(error instanceof RequestFailed)) {
          await shipment?.[Symbol.asyncDispose]();
          shipment = undefined;
        }
        const longest = Math.min(firstPauseMs * 2 ** Math.min(failures, 10), longestPauseMs);
        pause = longest * (0.5 + random() / 2);
      }
      await wait(clock, pause, signal).catch(() => undefined); // the loop ends by the signal
    }
    await shipment?.[Symbol.asyncDispose]();
  }

  async #show(shipment: Shipment | undefined, trouble: unknown): Promise<void> {
    this.#stand = (await shipment?.stand().catch(() => undefined)) ?? this.#stand; // it is told again by the next turn
    const stand = this.#stand === undefined ? {} : { archive: this.#stand };
    const now = { ...this.#blank(), phase: 'running' as const, ...stand };
    if (trouble === undefined) return this.#sendReport({ ...now, ready: true, stable: true });
    const code: FailureCode = trouble instanceof Refused ? 'archive_refused' : 'archive_waits';
    this.#sendReport({ ...now, error: { code, message: wordsOf(trouble) } });
  }

  #blank(): Omit<WireReport, 'phase'> {
    const { desired } = this.#deps;
    const generation =
      this.#desired?.generation ?? desired.tombstone(this.id)?.generation ?? this.#report?.generation ?? 0;
    return blankReport({ id: this.id, generation });
  }

  /** Reports what is new. Segments that follow one another are reported with the next instant. */
  #sendReport(report: WireReport): void {
    if (told(this.#report) === told(report)) return;
    this.#report = report;
    this.#deps.reported(report);
  }
}

/** What of a report is worth a write of the control plane. */
function told(report: WireReport | undefined): string {
  if (report === undefined) return '';
  const { archive, ...rest } = report;
  return JSON.stringify([rest, archive?.until, archive?.system_identifier, archive?.fill_percent]);
}

function workOf(item: ArchiveItem | undefined): string {
  return item === undefined ? '' : JSON.stringify([item.run, item.spec, item.generation]);
}

/** What failed, without any address. */
function wordsOf(error: unknown): string {
  if (error instanceof Refused || error instanceof RequestFailed || error instanceof RuntimeFailure)
    return error.message;
  const said = error instanceof Error ? error.message : String(error);
  return said.replaceAll(/\b[a-z]+:\/\/\S+/gi, '…').slice(0, 500);
}
