import type { Logger } from 'pino';
import { CallError } from '../../agent-protocol/call-error.ts';
import type { LogFollow } from '../../agent-protocol/logs.ts';
import type { Clock } from '../../store/clock.ts';
import type { Mirror } from '../../store/mirror.ts';
import type { Agents } from '../agents.ts';
import { agentBack } from './agent-back.ts';
import { SharedLogChunk } from './log-chunk.ts';

/** Who reads a workload's lines as they come. Called synchronously, in order. */
export interface LogReader {
  take(chunk: SharedLogChunk): void;
  /** Lines that the server lost before they could be read. */
  lost(count: number): void;
  /** The live lines begin now: what was read before may have ended before their beginning. */
  began(): void;
  /** As much as this reader can hold waits for it already. */
  readonly isFull: boolean;
}

interface Dependencies {
  agents: Agents;
  mirror: Mirror;
  clock: Clock;
  log: Logger;
}

interface Follow {
  readers: Set<LogReader>;
  stop: AbortController;
  hasBegun: boolean;
  /** Wakes the follow when a reader has room again. */
  room: PromiseWithResolvers<void>;
}

/** A reader's share of a follow. */
export interface LogSubscription {
  /** Whether live lines come already: what is read from now on leaves no hole before them. */
  readonly hasBegun: boolean;
  /** To be called when a full reader has room again. */
  hasRoom(): void;
  end(): void;
}

/**
 * Live lines for any number of readers: all who read one workload share one stream of its agent, which is asked again
 * where it ended when it comes back from having been away.
 */
export class LogHub {
  readonly #deps: Dependencies;
  readonly #follows = new Map<string, Follow>();

  constructor(deps: Dependencies) {
    this.#deps = deps;
  }

  subscribe(tenant: string, server: string, workload: string, reader: LogReader): LogSubscription {
    const key = `${tenant} ${server} ${workload}`;
    const follow = this.#follows.get(key) ?? this.#start(key, tenant, server, workload);
    follow.readers.add(reader);
    return {
      get hasBegun() {
        return follow.hasBegun;
      },
      hasRoom: () => follow.room.resolve(),
      end: () => {
        follow.readers.delete(reader);
        follow.room.resolve();
        if (follow.readers.size > 0) return;
        follow.stop.abort();
        if (this.#follows.get(key) === follow) this.#follows.delete(key);
      },
    };
  }

  #start(key: string, tenant: string, server: string, workload: string): Follow {
    const follow: Follow = {
      readers: new Set(),
      stop: new AbortController(),
      hasBegun: false,
      room: Promise.withResolvers(),
    };
    this.#follows.set(key, follow);
    void this.#run(tenant, server, workload, follow);
    return follow;
  }

  async #run(tenant: string, server: string, workload: string, follow: Follow): Promise<void> {
    const { signal } = follow.stop;
    const isOver = (): boolean => signal.aborted;
    // one stored line tells that the agent has begun to follow
    let from: LogFollow = { workload_id: workload, tail: 1 };
    while (!isOver()) {
      try {
        const chunks = this.#deps.agents.stream(tenant, server, { kind: 'logs', follow: from }, { signal });
        for await (const { lines, dropped } of chunks) {
          if (isOver()) return;
          tell(follow, new SharedLogChunk(lines), dropped ?? 0);
          const last = lines.at(-1);
          if (last !== undefined) from = { workload_id: workload, tail: 0, after_seq: last.seq };
          await room(follow);
        }
      } catch (error) {
        if (!isOver() && !(error instanceof CallError))
          this.#deps.log.error({ err: error, server, workload }, 'log stream of an agent failed');
      }
      await agentBack(this.#deps, tenant, server, signal);
    }
  }
}

function tell(follow: Follow, chunk: SharedLogChunk, dropped: number): void {
  if (!follow.hasBegun) {
    follow.hasBegun = true;
    for (const reader of follow.readers) reader.began();
  }
  for (const reader of follow.readers) {
    if (dropped > 0) reader.lost(dropped);
    reader.take(chunk);
  }
}

/** The agent is not asked for more while nobody can hold more; one turn of the event loop passes in any case. */
async function room(follow: Follow): Promise<void> {
  await new Promise((resolve) => void setImmediate(resolve));
  while (!follow.stop.signal.aborted && follow.readers.size > 0 && [...follow.readers].every((one) => one.isFull)) {
    follow.room = Promise.withResolvers();
    await follow.room.promise;
  }
}
