import type { Logger } from 'pino';
import { CallError } from '../../agent-protocol/call-error.ts';
import type { ServerSample } from '../../agent-protocol/metrics.ts';
import type { Clock } from '../../time/clock.ts';
import type { Mirror } from '../../store/mirror.ts';
import type { Agents } from '../ground/agents.ts';
import { agentBack } from './agent-back.ts';

type Reader = (sample: ServerSample) => void;

interface Dependencies {
  agents: Pick<Agents, 'samples'>;
  mirror: Mirror;
  clock: Clock;
  log: Logger;
}

interface Follow {
  readers: Set<Reader>;
  stop: AbortController;
  /** Absent until the first one arrives, and while the agent is away. */
  newest: ServerSample | undefined;
}

/**
 * Live measurements of servers for any number of readers: all readers of one server share one stream of its agent. The
 * stream goes on by itself after the agent was away. No sample is kept for a reader.
 */
export class SampleHub {
  readonly #deps: Dependencies;
  readonly #follows = new Map<string, Follow>();

  constructor(deps: Dependencies) {
    this.#deps = deps;
  }

  /** Calls the reader with the newest sample, if there is one, and with each later one. Returns a function that ends it. */
  subscribe(tenant: string, server: string, reader: Reader): () => void {
    const key = `${tenant} ${server}`;
    const follow = this.#follows.get(key) ?? this.#start(key, tenant, server);
    follow.readers.add(reader);
    if (follow.newest !== undefined) reader(follow.newest);
    return () => {
      follow.readers.delete(reader);
      if (follow.readers.size > 0) return;
      follow.stop.abort();
      if (this.#follows.get(key) === follow) this.#follows.delete(key);
    };
  }

  #start(key: string, tenant: string, server: string): Follow {
    const follow: Follow = { readers: new Set(), stop: new AbortController(), newest: undefined };
    this.#follows.set(key, follow);
    void this.#run(tenant, server, follow);
    return follow;
  }

  async #run(tenant: string, server: string, follow: Follow): Promise<void> {
    const { signal } = follow.stop;
    const isOver = (): boolean => signal.aborted;
    while (!isOver()) {
      try {
        for await (const sample of this.#deps.agents.samples(tenant, server, { signal })) {
          if (isOver()) return;
          follow.newest = sample;
          for (const reader of follow.readers) reader(sample);
        }
      } catch (error) {
        if (!isOver() && !(error instanceof CallError))
          this.#deps.log.error({ err: error, server }, 'stream of metrics of an agent failed');
      }
      follow.newest = undefined;
      await agentBack(this.#deps, tenant, server, signal);
    }
  }
}
