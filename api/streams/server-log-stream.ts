import { z } from 'zod';
import { CallError } from '../../agent-protocol/call-error.ts';
import { agentSource } from '../../agent-protocol/logs.ts';
import type { ServerLogPage } from '../../agent-protocol/logs.ts';
import type { ReadonlyResource } from '../../store/resource.ts';
import { wait } from '../../time/clock.ts';
import { ApiError } from '../ground/api-error.ts';
import { isCapable } from '../workloads/agent-capability.ts';
import { lineConditions } from '../workloads/log-query.ts';
import { logSourceOf } from '../workloads/log-sources.ts';
import {
  askServerLogs,
  mergesLogs,
  requireMerging,
  serverLines,
  ServerLogsQuery,
  wantedIds,
} from '../workloads/server-logs.ts';
import { agentBack } from './agent-back.ts';
import type { Channel } from './channel.ts';
import { uncounted } from './gap.ts';
import { displayable } from './log-frames.ts';
import { PreparedFrame } from './prepared-frame.ts';
import { defineStream } from './stream.ts';
import type { StreamContext } from './stream.ts';

const limits = {
  /** Pause before an agent that had no further line is asked again. */
  pauseMs: 1000,
  /** Most lines of one answer after the first one, and of one write. */
  pageLines: 1000,
} as const;

const FollowedQuery = ServerLogsQuery.omit({ until: true }).extend({
  tail: z.coerce.number().int().min(0).max(5000).default(200).meta({ description: 'Stored lines to begin with' }),
});
type FollowedQuery = z.infer<typeof FollowedQuery>;

export const serverLogs = defineStream({
  path: '/ws/servers/:id/logs',
  summary: 'Lines of the agent and of all workloads of a server: its last lines, then live ones, as they arrive there',
  on: ['server', 'id'],
  query: FollowedQuery,
  check({ view, clock }, { it, query }) {
    requireMerging(view.agent(it.meta.id));
    lineConditions(query, clock);
    wantedIds(view, it.meta.id, query);
  },
  async run(ctx, { it, query, channel }) {
    channel.send({ type: 'ready' });
    return new ServerTail(ctx, it, query, channel).run();
  },
});

/**
 * Sends the lines of one server to one reader, a page at a time. The agent is asked for the next page when the reader
 * has taken the last one, so that lines wait on the disk of the server and not here. The cursor joins the pages: each
 * line is sent once, also after the agent was away.
 */
class ServerTail {
  readonly #ctx: StreamContext;
  readonly #server: ReadonlyResource<'server'>;
  readonly #query: FollowedQuery;
  readonly #channel: Channel;
  /** After the last line that was sent or passed; absent before the first page. */
  #cursor: string | undefined;
  /** The cursor at which a gap was last sent to the reader. */
  #gapAt: string | undefined;
  #isAway = false;

  constructor(ctx: StreamContext, server: ReadonlyResource<'server'>, query: FollowedQuery, channel: Channel) {
    this.#ctx = ctx;
    this.#server = server;
    this.#query = query;
    this.#channel = channel;
    this.#cursor = query.cursor;
  }

  /** Resolves when the channel is closed, or with why the stream ends. @throws Error that is not of the agent */
  async run(): Promise<string> {
    const { signal } = this.#channel;
    const { id } = this.#server.meta;
    const isOver = (): boolean => signal.aborted;
    while (!isOver()) {
      const agent = this.#ctx.view.agent(id);
      if (agent !== undefined && !isCapable(agent, mergesLogs)) return 'the agent is of an earlier release';
      try {
        const page = await this.#read();
        this.#sendPresence(false);
        const mayGoOn = await this.#send(page);
        if (!mayGoOn) await wait(this.#ctx.clock, limits.pauseMs, signal);
      } catch (error) {
        if (isOver()) break;
        if (error instanceof ApiError) return 'too many sources';
        if (!(error instanceof CallError)) throw error;
        this.#sendPresence(this.#ctx.view.agent(id) === undefined);
        await agentBack(this.#ctx, this.#ctx.tenant, id, signal);
      }
    }
    return 'closed';
  }

  async #read(): Promise<ServerLogPage> {
    const { signal } = this.#channel;
    const { id } = this.#server.meta;
    const ids = wantedIds(this.#ctx.view, id, this.#query);
    const cursor = this.#cursor;
    if (cursor === undefined && this.#query.tail > 0 && ids?.length !== 0)
      return askServerLogs(this.#ctx, id, this.#query, ids, signal);
    if (cursor === undefined) {
      // Only the place of the newest line is wanted: a search for one that matches might go far back.
      const newest = await askServerLogs(this.#ctx, id, { tail: 1 }, undefined, signal);
      return { ...newest, lines: [] };
    }
    if (ids?.length === 0) return { lines: [], cursor, more: false, truncated: false };
    return askServerLogs(this.#ctx, id, { ...this.#query, tail: limits.pageLines, cursor }, ids, signal);
  }

  /** Returns whether more lines follow those of the page. */
  async #send({ lines, cursor, more, truncated, lost }: ServerLogPage): Promise<boolean> {
    const before = this.#cursor;
    this.#cursor = cursor;
    // An agent of an earlier release does not tell a page that is full from lines that are gone.
    const isLost = before !== undefined && (lost ?? (truncated && !more));
    if (isLost && before !== this.#gapAt) this.#channel.send({ type: 'gap', dropped: uncounted });
    this.#gapAt = isLost ? before : undefined;
    if (cursor === before) return false;
    const frames = serverLines(this.#ctx.view, this.#server, inOwnOrder(lines)).map(
      ({ message, timestamp, stream, level, seq, source }) =>
        new PreparedFrame(
          JSON.stringify({ type: 'log', message: displayable(message), timestamp, stream, level, seq, source }),
        ),
    );
    this.#channel.sendAll([...frames, new PreparedFrame(JSON.stringify({ type: 'cursor', cursor }))]);
    await this.#channel.drained();
    return more;
  }

  /** Sends whether the agent is away or back, when that changes. */
  #sendPresence(isAway: boolean): void {
    if (isAway === this.#isAway) return;
    this.#isAway = isAway;
    const source = logSourceOf(this.#ctx.view, this.#server, agentSource);
    this.#channel.send({ type: 'source', state: isAway ? 'away' : 'back', source });
  }
}

/** In the order of times, with the lines of one source in the order of `seq`: readers know by it what they have. */
function inOwnOrder(lines: ServerLogPage['lines']): ServerLogPage['lines'] {
  const ofSource = Map.groupBy(
    lines.toSorted((a, b) => a.seq - b.seq),
    (line) => line.workload_id,
  );
  // Lines of the same time stay as the agent has them.
  const own = lines.flatMap(({ workload_id }) => ofSource.get(workload_id)?.shift() ?? []);
  const timed = own.map(withTimes());
  return timed.toSorted((a, b) => (a.time < b.time ? -1 : a.time > b.time ? 1 : 0)).map(({ line }) => line);
}

/** Gives each line its time, or that of the line before it of the same source if that is later. */
function withTimes() {
  const latest = new Map<string, string>();
  return (line: ServerLogPage['lines'][number]) => {
    const before = latest.get(line.workload_id) ?? '';
    const time = line.timestamp > before ? line.timestamp : before;
    latest.set(line.workload_id, time);
    return { time, line };
  };
}
