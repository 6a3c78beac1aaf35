/** More than this waiting for a slow reader ends its subscription. */
const maxWaiting = 100_000;

interface Subscriber<T> {
  waiting: T[];
  ended: boolean;
  failure: Error | undefined;
  changed: PromiseWithResolvers<void>;
}

/** Values to any number of readers, each from the moment of its subscription on. */
export class Feed<T> {
  readonly #subscribers = new Set<Subscriber<T>>();

  push(value: T): void {
    for (const one of this.#subscribers) {
      one.waiting.push(value);
      if (one.waiting.length > maxWaiting) one.failure = new RangeError(`A reader is ${maxWaiting} values behind`);
      one.changed.resolve();
    }
  }

  /** All present readers get what waits for them, and then end. */
  end(): void {
    this.#finish((one) => (one.ended = true));
  }

  fail(failure: Error): void {
    this.#finish((one) => (one.failure = failure));
  }

  /** Begins at the call, with `before` ahead of all that comes. */
  subscribe(signal: AbortSignal, before: readonly T[] = []): AsyncIterable<T> {
    const one: Subscriber<T> = {
      waiting: [...before],
      ended: false,
      failure: undefined,
      changed: Promise.withResolvers(),
    };
    this.#subscribers.add(one);
    const abort = (): void => {
      this.#subscribers.delete(one);
      one.changed.resolve();
    };
    signal.addEventListener('abort', abort, { once: true });
    return this.#read(one, signal, () => {
      signal.removeEventListener('abort', abort);
      this.#subscribers.delete(one);
    });
  }

  #finish(mark: (one: Subscriber<T>) => void): void {
    for (const one of this.#subscribers) {
      mark(one);
      one.changed.resolve();
    }
    this.#subscribers.clear();
  }

  async *#read(one: Subscriber<T>, signal: AbortSignal, free: () => void): AsyncGenerator<T> {
    try {
      for (;;) {
        signal.throwIfAborted();
        const batch = one.waiting;
        one.waiting = [];
        yield* batch;
        if (one.failure) throw one.failure;
        if (one.waiting.length > 0) continue;
        if (one.ended) return;
        await one.changed.promise;
        one.changed = Promise.withResolvers();
      }
    } finally {
      free();
    }
  }
}
