import { setImmediate as turn } from 'node:timers/promises';
import type PQueue from 'p-queue';
import type { Logger } from 'pino';
import type { Clock } from '../../time/clock.ts';
import { backoff } from './backoff.ts';
import { DueHeap } from './due-heap.ts';
import { FairPlaces } from './fair-places.ts';
import { KeyPace } from './key-pace.ts';
import { limits } from './limits.ts';
import { ReadyLines } from './ready-lines.ts';

/** Longest timer that is set: much longer ones overflow in Node and fire at once. */
const longestTimerMs = 24 * 60 * 60 * 1000;

/** What a run returns about the next run of its key. */
export type After =
  /** None until the key is added again. */
  | { after: 'nothing' }
  | { after: 'delay'; ms: number; priority: number }
  /** Again with backoff; any other result resets the count of failures. */
  | { after: 'failure' };

export interface Add {
  /** Higher runs first. Default 0. */
  priority?: number;
  /** Default 0. */
  delayMs?: number;
  /** The desired state changed: earlier failures do not apply to it, so no backoff delays it. */
  urgent?: boolean;
}

export interface QueueOptions {
  name: string;
  /** Runs at once of this queue. */
  concurrency: number;
  /** The executor that all queues share; its concurrency bounds them together. */
  pool: PQueue;
  clock: Clock;
  random: () => number;
  log: Logger;
  /**
   * Must end when its signal aborts, which it does at the deadline and when the queue is disposed. `id` is the number of
   * the run in this queue, which every log line of the run holds as `reconcile_id`.
   */
  run: (key: string, signal: AbortSignal, id: number) => Promise<After>;
  /**
   * Who a key that is ready runs for, the outermost first: by these names the runs at once are divided, see
   * {@link FairPlaces}, and keys of one priority take turns. Absent: in the order of arrival alone.
   */
  pathOf?: ((key: string) => readonly string[]) | undefined;
  /** Called for each run that is put off because its key ran too often. */
  onPaced?: () => void;
}

/** A key that is delayed, ready or running. Other keys have no entry, so that the number of keys bounds the queue. */
interface Entry {
  readonly key: string;
  state: 'new' | 'delayed' | 'ready' | 'running';
  due: number;
  place: number;
  priority: number;
  path: readonly string[];
  readySince: number;
  failures: number;
  /** What was added during the run. */
  meanwhile: { due: number; priority: number; urgent: boolean } | undefined;
}

/**
 * The work queue of one controller. It holds keys, never events.
 *
 * A key has at most one run at a time. Adding it while it waits makes it neither later nor less important; adding it
 * while it runs causes exactly one more run. A failed key waits with backoff. Adding it then cancels the wait; adding
 * it during the failing run does not, unless it is urgent. A run that ignores its deadline keeps its key, so that the
 * key never runs twice, but loses its place in the pool and is reported as stuck.
 *
 * A key that is added without end runs as often as `limits.queue` allows. What is added until then is one run.
 */
export class KeyedQueue implements AsyncDisposable {
  readonly name: string;
  readonly #options: QueueOptions;
  readonly #entries = new Map<string, Entry>();
  readonly #delayed = new DueHeap<Entry>();
  readonly #pace = new KeyPace(limits.queue);
  readonly #ready = new ReadyLines<Entry>();
  readonly #places: FairPlaces;
  readonly #mayBegin = (path: readonly string[]): boolean => this.#places.mayTake(path);
  readonly #running = new Map<Entry, { id: number; abort: AbortController; settled: Promise<void> }>();
  #begun = 0;
  /** Places taken in the pool, and how many of them have not started yet. */
  #workers = 0;
  #waitingWorkers = 0;
  #stuck = 0;
  #isPumping = false;
  #closed = false;
  #timer: { due: number; cancel: () => void } | undefined;

  constructor(options: QueueOptions) {
    this.name = options.name;
    this.#options = options;
    this.#places = new FairPlaces(options.concurrency);
  }

  /** Keys that could run now. */
  get depth(): number {
    return this.#ready.size;
  }

  get running(): number {
    return this.#running.size;
  }

  /** Runs that ignore their aborted signal. */
  get stuck(): number {
    return this.#stuck;
  }

  /** Milliseconds that the oldest ready key has waited for its run. */
  get oldestMs(): number {
    let oldest = Infinity;
    for (const { readySince } of this.#ready.firsts()) oldest = Math.min(oldest, readySince);
    return oldest === Infinity ? 0 : this.#options.clock.monotonic() - oldest;
  }

  add(key: string, { priority = 0, delayMs = 0, urgent = false }: Add = {}): void {
    if (this.#closed) return;
    const due = this.#options.clock.monotonic() + delayMs;
    const entry = this.#entries.get(key);
    if (entry === undefined) {
      this.#schedule(this.#newEntry(key), due, priority);
      return;
    }
    if (entry.state === 'running') {
      const { meanwhile } = entry;
      entry.meanwhile = {
        due: Math.min(due, meanwhile?.due ?? Infinity),
        priority: Math.max(priority, meanwhile?.priority ?? -Infinity),
        urgent: urgent || (meanwhile?.urgent ?? false),
      };
      return;
    }
    if (urgent) entry.failures = 0;
    this.#schedule(entry, Math.min(due, entry.due), Math.max(priority, entry.priority));
  }

  /** Aborts every run, forgets every key, and waits for the runs to end, at most for `limits.reconcile.graceMs`. */
  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#closed) return;
    this.#closed = true;
    this.#timer?.cancel();
    this.#delayed.clear();
    this.#ready.clear();
    const runs = [...this.#running.values()];
    for (const { abort } of runs) abort.abort(new Error(`Queue ${this.name} is closing`));
    let cancel = (): void => undefined;
    const grace = new Promise<void>((resolve) => {
      cancel = this.#options.clock.timer(limits.reconcile.graceMs, resolve);
    });
    await Promise.race([Promise.all(runs.map((run) => run.settled)), grace]);
    cancel();
    for (const [{ key }, { id }] of this.#running)
      this.#options.log.error(
        { key, reconcile_id: id },
        'A reconcile does not end although its queue closed, which is a bug',
      );
  }

  #newEntry(key: string): Entry {
    const entry: Entry = {
      key,
      state: 'new',
      due: 0,
      place: -1,
      priority: 0,
      path: [],
      readySince: 0,
      failures: 0,
      meanwhile: undefined,
    };
    this.#entries.set(key, entry);
    return entry;
  }

  #schedule(entry: Entry, due: number, priority: number): void {
    const now = this.#options.clock.monotonic();
    if (entry.state === 'ready') {
      if (priority !== entry.priority) this.#enqueue(entry, priority);
      return;
    }
    const earliest = this.#pace.earliest(entry.key);
    if (earliest > now && earliest > due && entry.state === 'new') this.#options.onPaced?.();
    entry.due = Math.max(due, earliest);
    entry.priority = priority;
    if (entry.due > now) {
      entry.state = 'delayed';
      this.#delayed.place(entry);
      this.#arm();
      return;
    }
    if (entry.state === 'delayed') this.#delayed.remove(entry);
    entry.readySince = now;
    this.#enqueue(entry, priority);
    this.#pumpSoon();
  }

  /** Moves the entry to the end of its new priority. */
  #enqueue(entry: Entry, priority: number): void {
    if (entry.state === 'ready') this.#ready.remove(entry);
    else entry.path = this.#options.pathOf?.(entry.key) ?? [];
    entry.state = 'ready';
    entry.priority = priority;
    this.#ready.add(entry);
  }

  /** One timer for the whole heap, armed for its earliest item. */
  #arm(): void {
    const next = this.#delayed.peek();
    if (next === undefined || (this.#timer !== undefined && this.#timer.due <= next.due)) return;
    this.#timer?.cancel();
    const { clock } = this.#options;
    const cancel = clock.timer(Math.min(Math.max(0, next.due - clock.monotonic()), longestTimerMs), () => {
      this.#timer = undefined;
      this.#wakeDue();
    });
    this.#timer = { due: next.due, cancel };
  }

  #wakeDue(): void {
    const now = this.#options.clock.monotonic();
    for (let next = this.#delayed.peek(); next !== undefined && next.due <= now; next = this.#delayed.peek()) {
      this.#delayed.remove(next);
      next.readySince = now;
      this.#enqueue(next, next.priority);
    }
    this.#pump();
    this.#arm();
  }

  /** Starts runs in a microtask: never inside a listener, and the most important key of the turn first. */
  #pumpSoon(): void {
    if (this.#isPumping) return;
    this.#isPumping = true;
    queueMicrotask(() => {
      this.#isPumping = false;
      this.#pump();
    });
  }

  #pump(): void {
    const { concurrency, pool } = this.#options;
    while (this.#workers < concurrency && this.#waitingWorkers < this.#ready.size) {
      const next = this.#ready.next(this.#mayBegin);
      if (next === undefined) return;
      this.#workers++;
      this.#waitingWorkers++;
      void pool.add(() => this.#work(), { priority: next.priority });
    }
  }

  /** Runs ready keys one after the other on one place of the pool, then gives the place back. */
  async #work(): Promise<void> {
    this.#waitingWorkers--;
    const { clock } = this.#options;
    const end = clock.monotonic() + limits.queue.sliceMs;
    for (let n = 0; n < limits.queue.slice && clock.monotonic() < end; n++) {
      const entry = this.#ready.take(this.#mayBegin);
      if (entry === undefined) break;
      await this.#hold(entry);
    }
    // Runs that never wait for input or output would otherwise block timers and sockets.
    if (this.#ready.size > 0) await turn();
    this.#workers--;
    this.#pump();
  }

  /** Starts the run and keeps the place in the pool until it ends or is given up as stuck. */
  #hold(entry: Entry): Promise<void> {
    const { clock, log } = this.#options;
    const { key, path } = entry;
    const id = ++this.#begun;
    entry.state = 'running';
    this.#pace.count(key, clock.monotonic());
    this.#places.take(path);
    const abort = new AbortController();
    return new Promise<void>((resolve) => {
      const release = (): void => {
        this.#places.leave(path);
        resolve();
      };
      let isStuck = false;
      let cancel = clock.timer(limits.reconcile.deadlineMs, () => {
        abort.abort(new Error(`Run exceeded its deadline of ${limits.reconcile.deadlineMs} ms: ${key}`));
        cancel = clock.timer(limits.reconcile.graceMs, () => {
          isStuck = true;
          this.#stuck++;
          log.error(
            { key, reconcile_id: id },
            'A reconcile ignores its deadline and holds its object, which is a bug: restart this control plane',
          );
          release();
        });
      });
      const settled = this.#attempt(key, abort.signal, id).then((after) => {
        cancel();
        if (isStuck) {
          this.#stuck--;
          log.warn({ key, reconcile_id: id }, 'A reconcile that ignored its deadline has ended');
        } else release();
        this.#finish(entry, after);
      });
      this.#running.set(entry, { id, abort, settled });
    });
  }

  /** Runs a key; an error that it throws is a failure of that key alone. */
  async #attempt(key: string, signal: AbortSignal, id: number): Promise<After> {
    try {
      return await this.#options.run(key, signal, id);
    } catch (error) {
      if (!this.#closed)
        this.#options.log.error(
          { key, reconcile_id: id, err: error },
          'A reconcile failed, which is a bug: it is tried again',
        );
      return { after: 'failure' };
    }
  }

  #finish(entry: Entry, after: After): void {
    this.#running.delete(entry);
    entry.state = 'new';
    const { meanwhile } = entry;
    entry.meanwhile = undefined;
    if (this.#closed) return;
    const now = this.#options.clock.monotonic();
    if (after.after === 'failure' && meanwhile?.urgent !== true) {
      const due = now + backoff(entry.failures, this.#options.random);
      entry.failures++;
      this.#schedule(entry, due, Math.max(entry.priority, meanwhile?.priority ?? -Infinity));
      return;
    }
    entry.failures = 0;
    const due = Math.min(after.after === 'delay' ? now + after.ms : Infinity, meanwhile?.due ?? Infinity);
    const priority = Math.max(after.after === 'delay' ? after.priority : -Infinity, meanwhile?.priority ?? -Infinity);
    if (due === Infinity) this.#entries.delete(entry.key);
    else this.#schedule(entry, due, priority);
  }
}
