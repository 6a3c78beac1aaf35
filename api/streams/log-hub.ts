import type { Logger } from 'pino';
import { answerOf } from '../../agent-protocol/answer.ts';
import { CallError } from '../../agent-protocol/call-error.ts';
import type { LogChunk, LogFollow } from '../../agent-protocol/logs.ts';
import { LogPage } from '../../agent-protocol/logs.ts';
import { wait } from '../../time/clock.ts';
import type { Clock } from '../../time/clock.ts';
import type { Mirror } from '../../store/mirror.ts';
import type { Agents } from '../ground/agents.ts';
import { agentBack } from './agent-back.ts';
import { SharedLogChunk } from './log-chunk.ts';
import { StreamShares } from './stream-shares.ts';

const limits = {
  /** Workloads of one server that are followed by streams; further ones are polled, as an agent has few streams. */
  streamsPerServer: 24,
  pollEveryMs: 2000,
  /** After this time the hub asks an agent again that refused a stream, as all of its streams were taken. */
  retryStreamMs: 30_000,
  /** Most lines of one poll. */
  polledLines: 1000,
  readTimeoutMs: 15_000,
} as const;

/** Reads live lines of a workload. Its methods are called synchronously, in order. */
export interface LogReader {
  take(chunk: SharedLogChunk): void;
  /** Lines that the server dropped before they were read. */
  lost(count: number): void;
  /** Live lines begin now; between what was read before and the first live line some may be missing. */
  began(): void;
  /** Whether as many lines wait for this reader as it may hold. */
  readonly isFull: boolean;
}

interface Dependencies {
  agents: Agents;
  mirror: Pick<Mirror, 'key' | 'subscribeKeys'>;
  clock: Clock;
  log: Logger;
}

interface Follow {
  readers: Set<LogReader>;
  stop: AbortController;
  hasBegun: boolean;
  /** Resolves when a reader has room again. */
  room: PromiseWithResolvers<void>;
}

/** The subscription of one reader. */
export interface LogSubscription {
  /** Whether live lines arrive already: then a read of stored lines leaves no gap before them. */
  readonly hasBegun: boolean;
  /** Call it when a full reader has room again. */
  hasRoom(): void;
  end(): void;
}

/**
 * Live lines for any number of readers. All readers of one workload share one stream of its agent. If the agent was
 * away, the stream continues after the last line. Where many workloads of one server are followed, or the streams of its
 * agent are taken, some are polled: their lines come up to some seconds later, and none is left out.
 */
export class LogHub {
  readonly #deps: Dependencies;
  readonly #follows = new Map<string, Follow>();
  readonly #shares = new StreamShares(limits.streamsPerServer);

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
    // one stored line shows that the agent has begun to follow
    let from: LogFollow = { workload_id: workload, tail: 1 };
    while (!isOver()) {
      try {
        const chunks = this.#chunks(tenant, server, from, signal);
        for await (const { lines, dropped } of chunks) {
          if (isOver()) return;
          deliver(follow, new SharedLogChunk(lines), dropped ?? 0);
          const last = lines.at(-1);
          // a polled workload may get a stream, which begins after the last line
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

  /** Lines from now on, by a stream if the server has one to spare, else by one poll after another. */
  async *#chunks(tenant: string, server: string, from: LogFollow, signal: AbortSignal): AsyncGenerator<LogChunk> {
    const { clock, agents } = this.#deps;
    using share = this.#shares.join(tenant, server);
    let next = from;
    let refusedUntil = 0;
    for (;;) {
      if (share.hasRoom && clock.monotonic() >= refusedUntil) {
        try {
          yield* share.taking(agents.stream(tenant, server, { kind: 'logs', follow: next }, { signal }));
          return;
        } catch (error) {
          if (!isTooMany(error)) throw error;
          refusedUntil = clock.monotonic() + limits.retryStreamMs;
        }
      }
      const at = { workload_id: from.workload_id, after_seq: next.after_seq };
      const { chunk, more } = await share.inTurn(() => this.#poll(tenant, server, at, signal));
      next = { workload_id: from.workload_id, tail: 0, after_seq: chunk.lines.at(-1)?.seq ?? next.after_seq ?? 0 };
      if (chunk.lines.length > 0) yield chunk;
      if (!more) await wait(clock, limits.pollEveryMs, signal);
    }
  }

  async #poll(
    tenant: string,
    server: string,
    { workload_id, after_seq }: { workload_id: string; after_seq: number | undefined },
    signal: AbortSignal,
  ): Promise<{ chunk: LogChunk; more: boolean }> {
    signal.throwIfAborted();
    // The first poll finds where live lines begin, as the first line of a stream does.
    const query =
      after_seq === undefined ? { workload_id, tail: 1 } : { workload_id, after_seq, tail: limits.polledLines };
    const options = { timeoutMs: limits.readTimeoutMs, signal };
    const page = answerOf(
      LogPage,
      await this.#deps.agents.call(tenant, server, { method: 'logs.read', query }, options),
    );
    const { lines, next_seq } = page;
    const last = lines.at(-1)?.seq;
    // It has no condition, so that only lines that are gone are missing.
    const dropped = last === undefined || after_seq === undefined ? 0 : last - after_seq - lines.length;
    return { chunk: { lines, ...(dropped > 0 && { dropped }) }, more: next_seq !== undefined };
  }
}

function isTooMany(error: unknown): boolean {
  return error instanceof CallError && error.code === 'too_many';
}

function deliver(follow: Follow, chunk: SharedLogChunk, dropped: number): void {
  if (!follow.hasBegun) {
    follow.hasBegun = true;
    for (const reader of follow.readers) reader.began();
  }
  for (const reader of follow.readers) {
    if (dropped > 0) reader.lost(dropped);
    reader.take(chunk);
  }
}

/** Requests no more lines from the agent while every reader is full. Always yields one turn of the event loop. */
async function room(follow: Follow): Promise<void> {
  await new Promise((resolve) => void setImmediate(resolve));
  while (!follow.stop.signal.aborted && follow.readers.size > 0 && [...follow.readers].every((one) => one.isFull)) {
    follow.room = Promise.withResolvers();
    await follow.room.promise;
  }
}
