import type { Logger } from 'pino';
import { CallError } from '../../agent-protocol/call-error.ts';
import { signalAfter } from '../../agent-protocol/signal-after.ts';
import { wait } from '../../time/clock.ts';
import type { Clock } from '../../time/clock.ts';
import type { Mirror } from '../../store/mirror.ts';
import { agentBack } from './agent-back.ts';
import { StreamShares } from './stream-shares.ts';

const limits = {
  /** Objects of one server whose samples come by streams; those of others are asked for, as an agent has few streams. */
  streamsPerServer: 8,
  pollEveryMs: 5000,
  readTimeoutMs: 15_000,
} as const;

type Reader<T> = (sample: T) => void;

/** What is sampled: a server, or one object on it. */
export interface Sampled {
  tenant: string;
  server: string;
  id: string;
}

interface Dependencies<T> {
  /** The samples as the agent sends them. @throws CallError */
  samples: (of: Sampled, options: { signal: AbortSignal }) => AsyncIterable<T>;
  mirror: Mirror;
  clock: Clock;
  log: Logger;
}

interface Follow<T> {
  readers: Set<Reader<T>>;
  stop: AbortController;
  /** Absent until the first one arrives, and while the agent is away. */
  newest: T | undefined;
}

/**
 * Live samples for any number of readers: all readers of one object share one stream of its agent. The
 * stream goes on by itself after the agent was away. Where many objects of one server are read, some are asked for one after
 * another every 5 s. No sample is kept for a reader.
 */
export class SampleHub<T> {
  readonly #deps: Dependencies<T>;
  readonly #follows = new Map<string, Follow<T>>();
  readonly #shares = new StreamShares(limits.streamsPerServer);

  constructor(deps: Dependencies<T>) {
    this.#deps = deps;
  }

  /** Calls the reader with the newest sample, if there is one, and with each later one. Returns a function that ends it. */
  subscribe(of: Sampled, reader: Reader<T>): () => void {
    const key = `${of.tenant} ${of.server} ${of.id}`;
    const follow = this.#follows.get(key) ?? this.#start(key, of);
    follow.readers.add(reader);
    if (follow.newest !== undefined) reader(follow.newest);
    return () => {
      follow.readers.delete(reader);
      if (follow.readers.size > 0) return;
      follow.stop.abort();
      if (this.#follows.get(key) === follow) this.#follows.delete(key);
    };
  }

  #start(key: string, of: Sampled): Follow<T> {
    const follow: Follow<T> = { readers: new Set(), stop: new AbortController(), newest: undefined };
    this.#follows.set(key, follow);
    void this.#run(of, follow);
    return follow;
  }

  async #run(of: Sampled, follow: Follow<T>): Promise<void> {
    const { tenant, server, id } = of;
    const { signal } = follow.stop;
    const isOver = (): boolean => signal.aborted;
    while (!isOver()) {
      try {
        for await (const sample of this.#samples(of, signal)) {
          if (isOver()) return;
          follow.newest = sample;
          for (const reader of follow.readers) reader(sample);
        }
      } catch (error) {
        if (!isOver() && !(error instanceof CallError))
          this.#deps.log.error({ err: error, server, id }, 'stream of samples of an agent failed');
      }
      follow.newest = undefined;
      await agentBack(this.#deps, tenant, server, signal);
    }
  }

  /** The samples by a stream if the server has one to spare; else the first one of a stream again and again. */
  async *#samples(of: Sampled, signal: AbortSignal): AsyncGenerator<T> {
    const { clock, samples } = this.#deps;
    using share = this.#shares.join(of.tenant, of.server);
    while (!share.hasRoom) {
      const newest = await share.inTurn(() => this.#newest(of, signal));
      if (newest !== undefined) yield newest.sample;
      await wait(clock, limits.pollEveryMs, signal);
    }
    yield* share.taking(samples(of, { signal }));
  }

  async #newest(of: Sampled, signal: AbortSignal): Promise<{ sample: T } | undefined> {
    const limit = signalAfter(this.#deps.clock, limits.readTimeoutMs, signal);
    try {
      for await (const sample of this.#deps.samples(of, { signal: limit.signal })) return { sample };
      return undefined;
    } finally {
      limit.cancel();
    }
  }
}
