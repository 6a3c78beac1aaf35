import { statfs } from 'node:fs/promises';
import type { Logger } from 'pino';
import { encodeTraffic, mostTrafficPoints } from '../../agent-protocol/traffic.ts';
import type { TrafficPage, TrafficQuery } from '../../agent-protocol/traffic.ts';
import type { Clock } from '../../time/clock.ts';
import { every } from '../../time/every.ts';
import { accessOf } from './access-line.ts';
import { AddressBook } from './address-book.ts';
import type { Tenure } from './address-book.ts';
import { LogTail } from './log-tail.ts';
import { Counts } from './traffic-counts.ts';
import { TrafficFiles } from './traffic-files.ts';
import { TrafficWindows, windowOf } from './traffic-windows.ts';
import type { Piece } from './traffic-windows.ts';
import type { Upstream } from './upstreams.ts';

interface Deps {
  /** Of the logs of the proxy. */
  logFolder: string;
  /** Where the counts are kept. */
  folder: string;
  /** The only workload that the host leads to; `undefined`: there is none, or there are several. */
  ownerOf: (host: string) => string | undefined;
  clock: Clock;
  log: Logger;
}

const readMs = 1_000;
/** The proxy writes the line of a request so soon after its end. */
const settleMs = 500;
/** With less, the proxy cannot write its log. */
const leastFreeBytes = 1024 * 1024;

/**
 * Counts the requests to the applications of the server by the log of its proxy. A request is counted once, also if the
 * agent is killed. While the agent is away, the log waits for it, as long as the proxy keeps it.
 */
export class Traffic implements AsyncDisposable {
  readonly #deps: Deps;
  readonly #files: TrafficFiles;
  readonly #windows = new TrafficWindows();
  readonly #book = new AddressBook();
  readonly #listeners = new Set<() => void>();
  readonly #closing = new AbortController();
  #tail: LogTail | undefined;
  /** What was counted since the last window was closed. */
  #open = new Map<string, { window: number; workload: string; instance: string | null; counts: Counts }>();
  /** What the disk did not take yet. */
  #unstored: { pieces: Piece[]; partial: Set<number>; tenures: Tenure[] } = blank();
  /** The window of the last request that was read. */
  #last: number | undefined;
  /** Requests since the last one may be missing. */
  #isGap = false;
  #isRefused = false;
  #isUnread = false;
  #running: Promise<void> | undefined;
  #stop: (() => void) | undefined;

  constructor(deps: Deps) {
    this.#deps = deps;
    this.#files = new TrafficFiles(deps.folder);
  }

  /** From now on the log is read every second. */
  start(): void {
    if (this.#closing.signal.aborted || this.#stop !== undefined) return;
    this.#stop = every(this.#deps.clock, readMs, () => this.#turn());
    this.#turn();
  }

  stop(): void {
    this.#stop?.();
    this.#stop = undefined;
  }

  /** The instance is ready at that address. */
  offered(instance: string, { workload, address }: Upstream): void {
    const tenure = { address, workload, instance, from: this.#deps.clock.now().getTime() };
    if (!this.#book.enter(tenure)) return;
    this.#unstored.tenures.push(tenure);
    if (this.#stop !== undefined) this.#turn(); // requests may go there at once, and the agent may be killed
  }

  read(query: TrafficQuery): TrafficPage {
    return this.#windows.read(query, this.#deps.clock.now().getTime());
  }

  /** Yields the newest window of a workload as a line, at once and every 5 s, until the signal aborts. */
  async *newest(workload: string, signal: AbortSignal): AsyncGenerator<Uint8Array, void, undefined> {
    let wake = Promise.withResolvers<void>();
    const notify = (): void => wake.resolve();
    this.#listeners.add(notify);
    signal.addEventListener('abort', notify, { once: true });
    try {
      while (!signal.aborted) {
        wake = Promise.withResolvers();
        const sample = this.#windows.sample(this.#windows.known.before - 1, workload);
        if (sample !== undefined) yield encodeTraffic(sample);
        await wake.promise;
      }
    } finally {
      this.#listeners.delete(notify);
      signal.removeEventListener('abort', notify);
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#closing.abort(new Error('The agent is stopping'));
    this.stop();
    await this.#running;
  }

  #turn(): void {
    this.#running ??= this.#readNow()
      .then(() => {
        if (this.#isUnread) this.#deps.log.info('The log of the proxy is read again');
        this.#isUnread = false;
      })
      .catch((error: unknown) => {
        if (!this.#isUnread && !this.#closing.signal.aborted)
          this.#deps.log.error(
            { err: error },
            'Cannot read the log of the proxy: there is no traffic of applications until the disk can be read',
          );
        this.#isUnread = true;
      })
      .finally(() => {
        this.#running = undefined;
      });
  }

  async #readNow(): Promise<void> {
    const { clock, logFolder } = this.#deps;
    this.#tail ??= await this.#load();
    const begun = clock.now().getTime();
    if (windowOf(begun) < this.#windows.known.before - 1) await this.#goBackTo(begun);
    const { bavail, bsize } = await statfs(logFolder);
    if (bavail * bsize < leastFreeBytes) this.#isGap = true;
    const reader = { take: (line: string) => this.#take(line), lost: () => void (this.#isGap = true) };
    await this.#tail.read(reader, this.#closing.signal);
    const { from, before } = this.#windows.known;
    const next = windowOf(begun - settleMs);
    const isOver = next > before;
    if (!isOver && this.#unstored.tenures.length === 0) return;
    this.#drain();
    if (isOver) {
      if (this.#isGap) this.#markUpTo(next);
      this.#isGap = false;
      this.#last = next;
      this.#windows.know(from, next);
    }
    await this.#store(begun);
    if (isOver) for (const notify of this.#listeners) notify();
  }

  /**
   * Goes on at an instant before what is known, as the wall clock went back: what was counted from there on is of another
   * time, and so is what is stored. Of the window of the instant requests may be missing.
   */
  async #goBackTo(at: number): Promise<void> {
    const window = windowOf(at);
    this.#deps.log.warn('The clock went back: the traffic of applications that was counted ahead of it is forgotten');
    this.#drain(); // lines of the present time may be among them
    this.#windows.goBackTo(window);
    this.#unstored = { ...blank(), pieces: this.#windows.pieces };
    const book = new AddressBook();
    for (const tenure of this.#book.all) book.enter({ ...tenure, from: Math.min(tenure.from, at) });
    this.#book.replace(book);
    this.#isGap = true;
    this.#last = window;
    await this.#files.clear(); // the next record begins with all that is to be kept
  }

  /** Goes on with what was counted before, or begins with the next window. */
  async #load(): Promise<LogTail> {
    const records = await this.#files.load();
    const last = records.at(-1);
    const tail = new LogTail(this.#deps.logFolder, 'access', last?.position);
    const now = windowOf(this.#deps.clock.now().getTime());
    if (last === undefined) {
      await tail.skip(); // of whatever wrote these lines
      this.#windows.know(now + 1, now + 1);
      return tail;
    }
    const offered = this.#book.all;
    const known = new AddressBook();
    for (const { pieces, partial, tenures } of records) {
      for (const piece of pieces) this.#windows.add(piece);
      for (const window of partial) this.#windows.mark(window, window);
      for (const tenure of tenures) known.enter(tenure);
    }
    // an instance has its address since before the agent was started
    for (const tenure of offered) known.enter(tenure);
    this.#book.replace(known);
    this.#windows.know(...last.known);
    this.#last = last.known[1] - 1;
    return tail;
  }

  #take(line: string): void {
    const access = accessOf(line);
    if (access === undefined) {
      this.#isGap = true; // it was cut, and what it said is not known
      return;
    }
    const window = windowOf(access.at);
    if (this.#isGap) this.#markUpTo(window);
    this.#isGap = false;
    this.#last = window;
    const tenure = access.address === undefined ? undefined : this.#book.at(access.address, access.at);
    const workload = access.workload ?? tenure?.workload ?? this.#deps.ownerOf(access.host);
    if (workload === undefined) {
      if (access.address !== undefined) this.#mark(window); // an instance got it, but it is not known which one
      return;
    }
    const isOwn = tenure?.workload === workload && access.error !== 401 && access.error !== 413;
    const instance = isOwn ? tenure.instance : null;
    const key = `${window} ${workload} ${instance ?? ''}`;
    const piece = this.#open.get(key) ?? { window, workload, instance, counts: new Counts() };
    this.#open.set(key, piece);
    piece.counts.count(access);
  }

  #markUpTo(window: number): void {
    const last = Math.min(this.#last ?? this.#windows.known.before, window);
    const first = Math.max(last, window - mostTrafficPoints); // older ones are forgotten
    for (let one = first; one <= window; one++) this.#mark(one);
  }

  #mark(window: number): void {
    this.#windows.mark(window, window);
    this.#unstored.partial.add(window);
  }

  #drain(): void {
    for (const { window, workload, instance, counts } of this.#open.values()) {
      const piece: Piece = [window, workload, instance, counts.toJSON()];
      this.#windows.add(piece);
      this.#unstored.pieces.push(piece);
    }
    this.#open = new Map();
  }

  async #store(now: number): Promise<void> {
    const { pieces, partial, tenures } = this.#unstored;
    if (pieces.length === 0 && partial.size === 0 && tenures.length === 0 && !this.#files.isNew) return;
    const { from, before } = this.#windows.known;
    const position = this.#tail?.position;
    const record = {
      ...(position !== undefined && { position }),
      known: [from, before] as [number, number],
      pieces: pieces.filter(([window]) => window >= from),
      partial: [...partial],
      tenures,
    };
    this.#unstored = blank();
    try {
      await this.#files.append(
        record,
        () => ({ tenures: [...this.#book.all], partial: [...this.#windows.partial] }),
        now,
      );
      if (this.#isRefused) this.#deps.log.info('The traffic of applications is written again');
      this.#isRefused = false;
    } catch (error) {
      this.#unstored.pieces.unshift(...record.pieces);
      for (const window of partial) this.#unstored.partial.add(window);
      this.#unstored.tenures.unshift(...tenures);
      if (!this.#isRefused)
        this.#deps.log.error(
          { err: error },
          'Cannot write the traffic of applications: it is kept in memory until the disk takes it. Free space on it',
        );
      this.#isRefused = true;
    }
  }
}

function blank(): { pieces: Piece[]; partial: Set<number>; tenures: Tenure[] } {
  return { pieces: [], partial: new Set(), tenures: [] };
}
