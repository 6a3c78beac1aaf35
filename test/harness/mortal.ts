import type { Clock } from '../../time/clock.ts';
import type { Store } from '../../store/store.ts';

const learnMs = 2000;

/**
 * A process that can be killed, or frozen for a while, without this one. Everything that it has of the world goes
 * through here: once it is dead, its calls have no effect and no answer, its timers do not fire, its streams stand
 * still. While it is frozen all of that waits.
 */
export class Mortal {
  readonly #clock: Clock;
  readonly #death = new AbortController();
  readonly #timers = new Set<() => void>();
  /** Ends of what the dead waits for. */
  readonly #waiting = new Set<() => void>();
  /** Lets a lease expire, unless what it is told ends before. */
  readonly #leases = new Set<(isStillSo: () => boolean) => void>();
  #isBuried = false;
  #thaw: PromiseWithResolvers<void> | undefined;
  /** As long as that, what its streams brought meanwhile is not read. */
  #isBehind: Promise<void> | undefined;

  /** `clock`: of the world. */
  constructor(clock: Clock) {
    this.#clock = clock;
  }

  get isDead(): boolean {
    return this.#death.signal.aborted;
  }

  /** Aborts with the death; for what the world does then. */
  get death(): AbortSignal {
    return this.#death.signal;
  }

  kill(): void {
    this.#death.abort(new Error('The process was killed'));
    for (const end of this.#timers) end();
  }

  /** As a virtual machine that is moved, or a process that waits for its swapped memory. */
  freeze(): void {
    if (this.#thaw !== undefined) return;
    const thaw = Promise.withResolvers<void>();
    this.#thaw = thaw;
    for (const expire of this.#leases) expire(() => this.#thaw === thaw);
  }

  /**
   * It goes on as if nothing had been: what it was about to do, it does. What its streams brought meanwhile, and that
   * its leases are lost, it learns two seconds later.
   */
  thaw(): void {
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#clock.timer(learnMs, resolve);
    this.#isBehind = promise;
    this.#thaw?.resolve();
    this.#thaw = undefined;
  }

  /** At the end of the world: what the dead waits for fails, so that it lets go of what it holds of this process. */
  bury(): void {
    this.#isBuried = true;
    for (const fail of this.#waiting) fail();
  }

  clock(): Clock {
    const clock = this.#clock;
    return {
      now: () => clock.now(),
      monotonic: () => clock.monotonic(),
      timer: (ms, fn) => {
        if (this.isDead) return () => undefined;
        let isCancelled = false;
        const end = (): void => {
          isCancelled = true;
          cancel();
          this.#timers.delete(end);
        };
        const fire = (): void => {
          this.#timers.delete(end);
          if (!isCancelled) fn();
        };
        const cancel = clock.timer(ms, () => {
          if (this.#thaw === undefined) fire();
          else void this.awake().then(fire);
        });
        this.#timers.add(end);
        return end;
      },
    };
  }

  /** The process's way to something outside, all of whose methods answer with promises or streams. */
  reach<T extends object>(outside: T): T {
    return new Proxy(outside, {
      get: (target, name) => {
        const value: unknown = Reflect.get(target, name, target);
        if (typeof value !== 'function') return value;
        return (...args: unknown[]) => {
          if (this.isDead) return this.#silence();
          const call = (): unknown => Reflect.apply(value, target, args);
          const answer = this.#thaw === undefined ? call() : this.awake().then(call);
          if (answer instanceof Promise) return this.#answer(answer);
          return isStream(answer) ? this.#stream(answer) : answer;
        };
      },
    });
  }

  /**
   * The process's way to a store, which lies elsewhere and lives on. Nobody renews the leases of the dead and the
   * frozen: those of the dead expire `expiryMs(ttl)` later.
   */
  store(store: Store, expiryMs: (ttlMs: number) => number): Store {
    const clock = this.#clock;
    const reached = this.reach(store);
    const watch: Store['watch'] = (range, from, signal) =>
      this.#stream(store.watch(range, from, AbortSignal.any([signal, this.death])));
    const lease: Store['lease'] = async (ttlMs) => {
      const granted = await reached.lease(ttlMs);
      const expireAfter = (ms: number, isStillSo: () => boolean): void => {
        clock.timer(ms, () => {
          if (isStillSo()) void granted.revoke();
        });
      };
      const expire = (isStillSo: () => boolean): void => expireAfter(ttlMs, isStillSo);
      const die = (): void => expireAfter(expiryMs(ttlMs), () => true);
      this.#leases.add(expire);
      this.death.addEventListener('abort', die, { once: true });
      const lost = new AbortController();
      granted.lost.addEventListener('abort', () => {
        this.#leases.delete(expire);
        this.death.removeEventListener('abort', die);
        void this.#caughtUp().then(() => lost.abort(granted.lost.reason));
      });
      return { id: granted.id, lost: lost.signal, revoke: () => this.#act(() => granted.revoke()) };
    };
    return new Proxy(reached, {
      get: (target, name) => (name === 'lease' ? lease : name === 'watch' ? watch : Reflect.get(target, name, target)),
    });
  }

  async #act<T>(call: () => Promise<T>): Promise<T> {
    await this.awake();
    return this.isDead ? this.#never() : this.#answer(call());
  }

  async #answer<T>(promise: Promise<T>): Promise<T> {
    const [outcome] = await Promise.allSettled([promise]);
    if (this.#thaw !== undefined) await this.awake();
    if (this.isDead) return this.#never();
    if (outcome.status === 'fulfilled') return outcome.value;
    throw outcome.reason;
  }

  async *#stream<T>(stream: AsyncIterable<T>): AsyncGenerator<T, void, void> {
    try {
      for await (const value of stream) {
        await this.#caughtUp();
        if (this.isDead) await this.#never();
        yield value;
      }
    } catch (error) {
      if (!this.isDead) throw error;
    }
    if (this.isDead) await this.#never();
  }

  /** Resolves when it is not frozen. */
  async awake(): Promise<void> {
    while (this.#thaw !== undefined) await this.#thaw.promise;
  }

  async #caughtUp(): Promise<void> {
    await this.awake();
    await this.#isBehind;
  }

  /** What a call of the dead is answered with, whether it expects a promise or a stream. */
  #silence(): Promise<never> & AsyncIterable<never> {
    const never = this.#never();
    never.catch(() => undefined); // a caller that expects a stream does not wait for the promise
    const values = async function* (wait: () => Promise<never>): AsyncGenerator<never> {
      yield await wait();
    };
    return Object.assign(never, { [Symbol.asyncIterator]: () => values(() => this.#never()) });
  }

  #never(): Promise<never> {
    return new Promise((_, reject) => {
      const fail = (): void => reject(new Error('The process was killed'));
      if (this.#isBuried) fail();
      else this.#waiting.add(fail);
    });
  }
}

function isStream(value: unknown): value is AsyncIterable<unknown> {
  return typeof value === 'object' && value !== null && Symbol.asyncIterator in value;
}
