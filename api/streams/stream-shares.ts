/** What one reader uses of its server's share. Dispose it when the reader is done. */
export interface StreamShare extends Disposable {
  /** Whether the server has a stream to spare; if not, the reader asks for what is new {@link inTurn}. */
  readonly hasRoom: boolean;
  /** Yields what a stream yields. Until it ends it takes a part of the share. */
  taking<T>(stream: AsyncIterable<T>): AsyncGenerator<T>;
  /** Runs one read of the server at a time. Its errors are the caller's. */
  inTurn<T>(read: () => Promise<T>): Promise<T>;
}

interface Used {
  readers: number;
  streams: number;
  /** Resolves after the last read that is asked for. */
  reading: Promise<unknown>;
}

/** How many of the few streams of an agent may serve one purpose, on this replica: others need some, too. */
export class StreamShares {
  readonly #most: number;
  readonly #servers = new Map<string, Used>();

  constructor(most: number) {
    this.#most = most;
  }

  join(tenant: string, server: string): StreamShare {
    const key = `${tenant} ${server}`;
    const most = this.#most;
    const used = this.#servers.get(key) ?? { readers: 0, streams: 0, reading: Promise.resolve() };
    this.#servers.set(key, used);
    used.readers += 1;
    return {
      get hasRoom() {
        return used.streams < most;
      },
      async *taking(stream) {
        used.streams += 1;
        try {
          yield* stream;
        } finally {
          used.streams -= 1;
        }
      },
      inTurn(read) {
        const done = used.reading.then(read);
        used.reading = done.catch(() => undefined);
        return done;
      },
      [Symbol.dispose]: () => {
        used.readers -= 1;
        if (used.readers === 0) this.#servers.delete(key);
      },
    };
  }
}
