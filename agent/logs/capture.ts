import type { Logger } from 'pino';
import type { Clock } from '../../time/clock.ts';
import { deadline } from '../runtime/deadline.ts';
import type { ContainerDetail, ContainerRuntime, OutputChunk } from '../runtime/runtime.ts';
import { clean, LineSplitter } from './clean.ts';
import { guessLevel } from './level.ts';
import type { LogStore } from './log-store.ts';
import type { Entry } from './record.ts';
import { comparedLines, overlapMs, Resume } from './resume.ts';

/** The workload and the instance (assignment) that wrote the output. */
export interface Writer {
  workload: string;
  instance: string;
}

/** What it needs of the engine. */
interface Source extends Pick<ContainerRuntime, 'output'> {
  inspect(id: string, signal: AbortSignal): Promise<Pick<ContainerDetail, 'startedAt'> | undefined>;
}

interface Reading {
  ended: Promise<void>;
  stop: AbortController;
}

/** A service starts after this time, also if the engine has not confirmed the attachment. */
const attachMs = 3_000;
/** Wait for output that is still in transit after its process ended. */
const endMs = 3_000;
/** Text without a line feed is stored once nothing has followed it for this time, and if it goes on after the longer one. */
const silenceMs = 1_000;
const progressMs = 10_000;
const shownLines = 50;
const shownLength = 300;

/**
 * Writes the output of containers to the log store. It reads from before the start of a container, so that nothing is
 * missed; for a container that was found running, from the last stored line.
 */
export class Capture {
  readonly #runtime: Source;
  readonly #store: LogStore;
  readonly #clock: Clock;
  readonly #log: Logger;
  readonly #readings = new Map<string, Reading>();
  readonly #noting = new AbortController();
  readonly #lastLines = new Map<string, string[]>();

  constructor(deps: { runtime: Source; store: LogStore; clock: Clock; log: Logger }) {
    this.#runtime = deps.runtime;
    this.#store = deps.store;
    this.#clock = deps.clock;
    this.#log = deps.log;
  }

  /**
   * Starts a container by `start`, and captures all that its process writes. The start comes once the engine has confirmed
   * the attachment, or after 3 s. After a start that failed nothing is captured, as no process ends the output.
   */
  async start(container: string, writer: Writer, start: () => Promise<void>, signal: AbortSignal): Promise<void> {
    // The output of the container's former process is stored first.
    await this.finished(container, signal);
    this.#readings.get(container)?.stop.abort(new Error('The container starts again'));
    this.#lastLines.delete(writer.instance);
    const attached = Promise.withResolvers<void>();
    using limit = deadline(this.#clock, attachMs, 'Attaching to the output of a container', signal);
    limit.signal.addEventListener('abort', () => attached.resolve(), { once: true });
    const stop = this.#read(container, writer, attached.resolve, (ended) =>
      this.#pump(writer, this.#runtime.output(container, { attached: attached.resolve }, ended), undefined, ended),
    );
    try {
      await attached.promise;
      signal.throwIfAborted();
      await start();
    } catch (error) {
      stop.abort(error);
      throw error;
    }
  }

  /** Captures a running container from the last stored line on. Does nothing if it is already being read. */
  follow(container: string, writer: Writer): void {
    if (this.#readings.has(container)) return;
    this.#read(
      container,
      writer,
      () => undefined,
      (stop) => this.#resume(container, writer, stop),
    );
  }

  /** Resolves when the output of an ended container is in the store, when the signal aborts, or after 3 s. */
  async finished(container: string, signal: AbortSignal): Promise<void> {
    const reading = this.#readings.get(container);
    if (reading === undefined) return;
    const late = Promise.withResolvers<void>();
    const cancel = this.#clock.timer(endMs, late.resolve);
    signal.addEventListener('abort', () => late.resolve(), { once: true });
    await Promise.race([reading.ended, late.promise]);
    cancel();
  }

  /** Stores a line of the agent itself about how the image of an instance is made ready. */
  note({ workload, instance }: Writer, text: string): void {
    const entries = entriesOf(clean(text).split('\n'), { at: this.#clock.now().getTime(), stream: 'build', instance });
    this.#store.append(workload, entries, this.#noting.signal).catch((error: unknown) => {
      this.#log.warn({ err: error, workload, instance }, 'Cannot store a line about the image of an instance');
    });
  }

  /** The last 50 lines that the present or last process of an instance wrote, each cut to 300 characters. */
  lastLines(instance: string): readonly string[] {
    return this.#lastLines.get(instance) ?? [];
  }

  /** Drops the last lines of an instance that is gone. */
  forget(instance: string): void {
    this.#lastLines.delete(instance);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const readings = [...this.#readings.values()];
    this.#noting.abort();
    for (const { stop } of readings) stop.abort(new Error('The agent is stopping'));
    await Promise.allSettled(readings.map(({ ended }) => ended));
  }

  #read(
    container: string,
    writer: Writer,
    settled: () => void,
    read: (stop: AbortSignal) => Promise<void>,
  ): AbortController {
    const stop = new AbortController();
    const ended = read(stop.signal)
      .catch((error: unknown) => {
        if (!stop.signal.aborted)
          this.#log.warn(
            { err: error, ...writer },
            'Cannot read the output of a container: lines of it may be missing',
          );
      })
      .finally(() => {
        settled();
        if (this.#readings.get(container)?.stop === stop) this.#readings.delete(container);
      });
    this.#readings.set(container, { ended, stop });
    return stop;
  }

  async #resume(container: string, writer: Writer, signal: AbortSignal): Promise<void> {
    const stored = await this.#store.lastOutput(writer.workload, writer.instance, comparedLines);
    const last = Math.max(0, ...stored.map((line) => line.at));
    const since = new Date(Math.max(0, last - overlapMs)).toISOString();
    const startedAt = stored.length === 0 ? undefined : await this.#startOf(container, signal);
    const resume = new Resume(stored, startedAt);
    const recorded = (): void => void this.#keep(writer, resume.end(), signal).catch(() => undefined); // `#pump` throws it
    await this.#pump(writer, this.#runtime.output(container, { since, recorded }, signal), resume, signal);
  }

  /** When the process of the container began; `undefined` if that is not known. */
  async #startOf(container: string, signal: AbortSignal): Promise<number | undefined> {
    const detail = await this.#runtime.inspect(container, signal).catch(() => undefined); // its output is read all the same
    const at = Date.parse(detail?.startedAt ?? '');
    return Number.isNaN(at) ? undefined : at;
  }

  async #pump(
    writer: Writer,
    output: AsyncIterable<OutputChunk>,
    resume: Resume | undefined,
    signal: AbortSignal,
  ): Promise<void> {
    const splitters = { stdout: new LineSplitter(), stderr: new LineSplitter() };
    const store = (entries: readonly Entry[]): Promise<void> => this.#keep(writer, entries, signal);
    const headOf = (stream: 'stdout' | 'stderr') => ({
      at: this.#clock.now().getTime(),
      stream,
      instance: writer.instance,
    });
    using open = new OpenLines(this.#clock, (stream) => {
      if (resume?.isOpen === true) return false; // the record may have the whole line
      const parts = entriesOf(splitters[stream].flush(), headOf(stream));
      void store(parts).catch(() => undefined); // the next line throws it
      return true;
    });
    for await (const { stream, data, at } of output) {
      const splitter = splitters[stream];
      const time = at === undefined ? undefined : Date.parse(at);
      const entries = entriesOf(splitter.push(data), { ...headOf(stream), ...(time !== undefined && { at: time }) });
      open.came(stream, { isOpen: splitter.isOpen, isNew: entries.length > 0 });
      await store(resume === undefined ? entries : resume.push(entries, time !== undefined));
    }
    // what was cut off is read whole by the next capture
    if (signal.aborted) return;
    const rest = (['stdout', 'stderr'] as const).flatMap((stream) =>
      entriesOf(splitters[stream].end(), headOf(stream)),
    );
    await store([...(resume?.end() ?? []), ...rest]);
  }

  async #keep(writer: Writer, entries: readonly Entry[], signal: AbortSignal): Promise<void> {
    if (entries.length === 0) return;
    const known = this.#lastLines.get(writer.instance) ?? [];
    const shown = entries.slice(-shownLines).map((entry) => entry.message.slice(0, shownLength));
    this.#lastLines.set(writer.instance, [...known, ...shown].slice(-shownLines));
    await this.#store.append(writer.workload, entries, signal);
  }
}

/** Watches for text that no line feed ends. */
class OpenLines implements Disposable {
  readonly #clock: Clock;
  /** Answers with false where it is to wait on. */
  readonly #show: (stream: 'stdout' | 'stderr') => boolean;
  /** When the text began that waits, by the monotonic clock, and what ends the waiting. */
  readonly #waiting = new Map<string, { since: number; cancel: () => void }>();

  constructor(clock: Clock, show: (stream: 'stdout' | 'stderr') => boolean) {
    this.#clock = clock;
    this.#show = show;
  }

  /** Output came; `isOpen`: after it a line waits for its end, which began with this output if `isNew`. */
  came(stream: 'stdout' | 'stderr', { isOpen, isNew }: { isOpen: boolean; isNew: boolean }): void {
    const before = this.#waiting.get(stream);
    before?.cancel();
    this.#waiting.delete(stream);
    if (!isOpen) return;
    const now = this.#clock.monotonic();
    const since = isNew ? now : (before?.since ?? now);
    const cancel = this.#clock.timer(Math.min(silenceMs, Math.max(0, since + progressMs - now)), () => {
      this.#waiting.delete(stream);
      if (!this.#show(stream)) this.came(stream, { isOpen: true, isNew: false });
    });
    this.#waiting.set(stream, { since, cancel });
  }

  [Symbol.dispose](): void {
    for (const { cancel } of this.#waiting.values()) cancel();
    this.#waiting.clear();
  }
}

function entriesOf(lines: readonly string[], head: Pick<Entry, 'at' | 'stream' | 'instance'>): Entry[] {
  const { at, stream, instance } = head;
  return lines.map((message) => ({ at, stream, level: guessLevel(message), instance, message }));
}
