import type { Agent as Connections } from 'node:http';
import type { Logger } from 'pino';
import { Agent } from '../../agent-protocol/node-http.ts';
import type { Clock } from '../../time/clock.ts';
import { RuntimeFailure } from '../runtime/runtime.ts';
import { CallFault } from './call-fault.ts';

/** How the process of an instance ended. */
export interface Ending {
  outOfMemory: boolean;
}

/** A process that answers calls. */
export interface Launched {
  address: string;
  port: number;
  /** Resolves when its process has ended. */
  ended: Promise<Ending>;
  /** Ends its process and removes what it ran in. Never throws. */
  stop(): Promise<void>;
}

/** How the instances of one version are made, and how many there may be. */
export interface PoolSettings {
  version: string;
  concurrency: number;
  minInstances: number;
  maxInstances: number;
  timeoutMs: number;
  /** Resolves when the instance answers. @throws Error whose message says why it does not */
  launch(signal: AbortSignal): Promise<Launched>;
}

/** An instance, and the calls that it answers now. */
export interface Slot {
  readonly launched: Launched;
  /** Connections to it, which are kept open. */
  readonly connections: Connections;
  active: number;
  cancelIdle: () => void;
  /** Cancels what notes that it has lasted. */
  cancelProof: () => void;
  isLeaving: boolean;
  isStopping: boolean;
  /** Resolves when it is removed. */
  readonly gone: PromiseWithResolvers<void>;
}

/** What a call got to be answered by. */
export interface Grant {
  slot: Slot;
  pool: Pool;
  /** How long the call waited for an instance to start; absent: it did not. */
  coldMs?: number;
}

interface Waiter {
  since: number;
  /** It does not wait any more. */
  isGone: boolean;
  resolve: (grant: Grant) => void;
  reject: (error: Error) => void;
}

/** Calls that wait for an instance at a time, of one function. */
export const mostWaiting = 100;
/** How long a call waits for which a caller waits: it is answered before those give up that asked for it by the control plane. */
export const mostWaitMs = 55_000;
/** An instance without a call for so long is ended. */
export const idleMs = 5 * 60_000;
/** Time until instances that must be there are started again after a failure; it doubles up to the second one. */
const againMs = { first: 5_000, most: 60_000 };
/** An instance that ends earlier than this counts as a failure to start. */
export const shortLifeMs = 10_000;
/** Starts in a row that failed after which the function counts as one that does not start. */
const mostFailures = 3;

/** The instances of one version of a function: they come when calls wait, and go when none comes. */
export class Pool {
  readonly settings: PoolSettings;
  readonly #clock: Clock;
  readonly #log: Logger;
  readonly #changed: () => void;
  readonly #slots = new Set<Slot>();
  /** Instances that answer their last calls. */
  readonly #leaving = new Set<Slot>();
  readonly #closing = new AbortController();
  #waiting: Waiter[] = [];
  readonly #starts = new Set<Promise<void>>();
  /** Starts in a row that led to no instance that lasted. */
  #failures = 0;
  #failure: Error | undefined;
  #isPausing = false;
  #cancelAgain: () => void = () => undefined;

  /** `changed` is called when {@link failure} has changed. */
  constructor(settings: PoolSettings, { clock, log, changed }: { clock: Clock; log: Logger; changed: () => void }) {
    this.settings = settings;
    this.#clock = clock;
    this.#log = log;
    this.#changed = changed;
  }

  /** Why no instance starts, after several starts in a row have failed; `undefined` again once one has lasted. */
  get failure(): Error | undefined {
    return this.#failure;
  }

  /** Starts the instances that must be there. */
  open(): void {
    if (this.#closing.signal.aborted || this.#isPausing) return;
    while (this.#slots.size + this.#starting < this.settings.minInstances) this.#begin();
  }

  /** Starts an instance before the first call. @throws what kept it from starting */
  async warm(signal: AbortSignal): Promise<void> {
    this.#started(await this.settings.launch(signal));
  }

  /** Resolves with an instance that has room for a call. `waitMs`: how long it waits; absent: until the signal aborts. @throws CallFault */
  async acquire(signal: AbortSignal, waitMs?: number): Promise<Grant> {
    if (this.#closing.signal.aborted) throw notRunning();
    const free = [...this.#slots].find((slot) => slot.active < this.settings.concurrency);
    if (free !== undefined && this.#waiting.length === 0) return this.#grant(free);
    if (this.#waiting.length >= mostWaiting)
      throw new CallFault('queue_full', `${mostWaiting} calls wait already for an instance of the function`, {
        retryAfter: 1,
      });
    const { promise, resolve, reject } = Promise.withResolvers<Grant>();
    const waiter: Waiter = { since: this.#clock.monotonic(), isGone: false, resolve, reject };
    const leave = (why: CallFault): void => {
      waiter.isGone = true; // another pool may have it by now
      this.#waiting = this.#waiting.filter((one) => one !== waiter);
      reject(why);
    };
    const abort = (): void => leave(new CallFault('client_gone', 'Who called went away before an instance was ready'));
    const cancel =
      waitMs === undefined
        ? undefined
        : this.#clock.timer(waitMs, () =>
            leave(
              new CallFault(
                'queue_full',
                `No instance of the function was free within ${waitMs / 1000} s: raise max_instances or concurrency`,
                { retryAfter: 1 },
              ),
            ),
          );
    signal.addEventListener('abort', abort, { once: true });
    this.#waiting.push(waiter);
    this.#grow();
    try {
      return await promise;
    } finally {
      cancel?.();
      signal.removeEventListener('abort', abort);
    }
  }

  /** A call ended. */
  release(slot: Slot): void {
    slot.active -= 1;
    if (slot.isLeaving) {
      if (slot.active === 0) this.#stop(slot);
      return;
    }
    this.#serve(slot);
    if (slot.active === 0) this.#rest(slot);
  }

  /** The instance gets no further call, and ends with its last one; another one may take its place. */
  retire(slot: Slot): void {
    if (slot.isLeaving) return;
    slot.isLeaving = true;
    slot.cancelIdle();
    slot.cancelProof();
    this.#slots.delete(slot);
    this.#leaving.add(slot);
    if (slot.active === 0) this.#stop(slot);
    this.open();
    this.#grow();
  }

  /** Takes over the calls that wait, and ends the other pool once its calls are answered. */
  succeed(other: Pool): void {
    this.#waiting.push(...other.#waiting.splice(0).filter(({ isGone }) => !isGone));
    other.#leave();
    for (const slot of this.#slots) this.#serve(slot); // the one that was warmed
    this.#grow();
  }

  /** Refuses calls, and resolves when all instances are gone: those with calls after `graceMs`. */
  async close(graceMs: number): Promise<void> {
    this.#leave();
    const late = Promise.withResolvers<void>();
    const cancel = this.#clock.timer(graceMs, late.resolve);
    await Promise.all(this.#starts);
    const left = Promise.all([...this.#leaving].map(({ gone }) => gone.promise));
    await Promise.race([left, late.promise]);
    cancel();
    for (const slot of this.#leaving) this.#stop(slot);
    await left;
  }

  /** Forgets the instances, which run on: the agent is stopping. */
  abandon(): void {
    this.#closing.abort(new Error('The agent is stopping'));
    this.#cancelAgain();
    for (const waiter of this.#waiting.splice(0)) waiter.reject(notRunning());
    for (const slot of [...this.#slots, ...this.#leaving]) {
      slot.cancelIdle();
      slot.cancelProof();
      slot.connections.destroy();
    }
  }

  get size(): number {
    return this.#slots.size + this.#starting + this.#leaving.size;
  }

  get #starting(): number {
    return this.#starts.size;
  }

  #leave(): void {
    this.#closing.abort(new Error('The function is not served by this version any more'));
    this.#cancelAgain();
    for (const waiter of this.#waiting.splice(0)) waiter.reject(notRunning());
    for (const slot of this.#slots) this.retire(slot);
  }

  #grant(slot: Slot, coldMs?: number): Grant {
    slot.active += 1;
    slot.cancelIdle();
    return { slot, pool: this, ...(coldMs !== undefined && { coldMs }) };
  }

  /** Gives calls that wait to an instance with room. `isNew`: they waited for it to start. */
  #serve(slot: Slot, isNew = false): void {
    while (slot.active < this.settings.concurrency) {
      const next = this.#waiting.shift();
      if (next === undefined) return;
      if (next.isGone) continue;
      const waited = Math.max(0, Math.round(this.#clock.monotonic() - next.since));
      next.resolve(this.#grant(slot, isNew ? waited : undefined));
    }
  }

  #rest(slot: Slot): void {
    if (this.#slots.size <= this.settings.minInstances) return;
    slot.cancelIdle = this.#clock.timer(idleMs, () => {
      if (slot.active === 0 && this.#slots.size > this.settings.minInstances) this.retire(slot);
    });
  }

  /** Starts instances for the calls that wait beyond those which instances that start already will answer. */
  #grow(): void {
    if (this.#closing.signal.aborted) return;
    const { maxInstances, concurrency } = this.settings;
    while (this.#slots.size + this.#starting < maxInstances && this.#waiting.length > this.#starting * concurrency)
      this.#begin();
  }

  #begin(): void {
    const start: Promise<void> = this.#start().finally(() => this.#starts.delete(start));
    this.#starts.add(start);
  }

  async #start(): Promise<void> {
    try {
      this.#started(await this.settings.launch(this.#closing.signal));
    } catch (error) {
      this.#failed(error);
    }
  }

  #started(launched: Launched): void {
    const slot: Slot = {
      launched,
      connections: new Agent({ keepAlive: true }),
      active: 0,
      cancelIdle: () => undefined,
      cancelProof: () => undefined,
      isLeaving: false,
      isStopping: false,
      gone: Promise.withResolvers(),
    };
    const begun = this.#clock.monotonic();
    void launched.ended.then(() => this.#ended(slot, begun));
    if (this.#closing.signal.aborted) {
      this.#leaving.add(slot);
      slot.isLeaving = true;
      this.#stop(slot);
      return;
    }
    this.#slots.add(slot);
    slot.cancelProof = this.#clock.timer(shortLifeMs, () => this.#lasted());
    this.#serve(slot, true);
    if (slot.active === 0) this.#rest(slot);
  }

  /** No call waits for an instance that will not come. */
  #failed(error: unknown): void {
    if (this.#closing.signal.aborted) return;
    const { version } = this.settings;
    this.#log.warn({ err: error, version }, 'Cannot start an instance of a function');
    const cause = error instanceof Error ? error : new Error(String(error));
    const why = cause.message;
    if (this.#slots.size === 0 && this.#starting === 1)
      for (const waiter of this.#waiting.splice(0))
        waiter.reject(new CallFault('start_failed', `No instance of the function starts: ${why}`, { cause: error }));
    this.#pause();
    this.#judge(cause);
  }

  /** The process of an instance ended. One that ends soon would be started again without a pause. */
  #ended(slot: Slot, begun: number): void {
    const isShort = this.#clock.monotonic() - begun < shortLifeMs;
    if (slot.isLeaving) return; // it was to end
    if (isShort) this.#pause();
    else this.#failures = 0;
    this.retire(slot);
    if (isShort) this.#judge(new Error('its process ends soon after its start: its log has the reason'));
  }

  /** Notes why no instance starts, once that is more than one mishap. */
  #judge(cause: Error): void {
    // an image that was removed does not come back by itself
    const isEnough = this.#failures >= mostFailures || isImageGone(cause);
    if (this.#closing.signal.aborted || this.#slots.size > 0 || !isEnough) return;
    this.#failure = cause;
    this.#changed();
  }

  /** An instance has lived long enough to show that they start. */
  #lasted(): void {
    this.#failures = 0;
    if (this.#failure === undefined) return;
    this.#failure = undefined;
    this.#changed();
  }

  /** Those that must be there are started again after a while. */
  #pause(): void {
    if (this.#closing.signal.aborted) return;
    this.#failures += 1;
    this.#isPausing = true;
    this.#cancelAgain();
    this.#cancelAgain = this.#clock.timer(Math.min(againMs.first * 2 ** (this.#failures - 1), againMs.most), () => {
      this.#isPausing = false;
      this.open();
    });
  }

  #stop(slot: Slot): void {
    if (slot.isStopping) return;
    slot.isStopping = true;
    void slot.launched.stop().finally(() => {
      slot.connections.destroy();
      this.#leaving.delete(slot);
      slot.gone.resolve();
    });
  }
}

/** Whether an instance cannot be made as the image of the function is no more on the server. */
export function isImageGone(error: unknown): boolean {
  return error instanceof RuntimeFailure && error.code === 'image_not_found';
}

function notRunning(): CallFault {
  return new CallFault('not_running', 'The function does not run on its server: start it', { retryAfter: 5 });
}
