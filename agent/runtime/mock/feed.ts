/** Most values that may wait for a slow reader: beyond it the subscription fails. */
const maxWaiting = 100_000;

interface Subscriber<T> {
  waiting: T[];
  ended: boolean;
  failure: Error | undefined;
  changed: PromiseWithResolvers<void>;
}

/** Passes values to any number of readers, to each from the moment of its subscription on. */
export class Feed<T> {
  readonly #subscribers = new Set<Subscriber<T>>();

  push(value: T): void {
    for (const one of this.#subscribers) {
      one.waiting.push(value);
      if (one.waiting.length > maxWaiting) one.failure = new RangeError(`A reader is ${maxWaiting} values behind`);
      one.changed.resolve();
    }
  }

  /** All readers get the values that wait for them, and then end. */
  end(): void {
    this.#finish((one) => (one.ended = true));
  }

  fail(failure: Error): void {
    this.#finish((one) => (one.failure = failure));
  }

  /** Subscribes at once: the reader gets all values from now on. */
  subscribe(signal: AbortSignal): AsyncIterable<T> {
    const one: Subscriber<T> = {
      waiting: [],
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
