import { z } from 'zod';
import { CallError } from '../../agent-protocol/call-error.ts';
import type { LogFollow } from '../../agent-protocol/logs.ts';
import { LogPage } from '../../agent-protocol/logs.ts';
import { wait } from '../../store/clock.ts';
import { keys } from '../../store/keys.ts';
import { serviceUnavailable } from '../api-error.ts';
import { buildInstanceOf } from '../instance-ids.ts';
import { logQueryOf, LogsQuery } from '../log-query.ts';
import type { LogScope } from '../log-query.ts';
import { deploymentStatus, isUnfinished } from '../status.ts';
import type { Channel } from './channel.ts';
import { sendChunk } from './log-frames.ts';
import type { LogSource } from './log-frames.ts';
import { defineStream } from './stream.ts';
import type { StreamContext } from './stream.ts';
import { untilClosed } from './until-closed.ts';

const limits = {
  /** An agent that refuses or breaks a stream is asked again after that time. */
  retryMs: 2000,
  readTimeoutMs: 15_000,
  pageLines: 5000,
} as const;

const FollowQuery = LogsQuery.omit({ until: true, previous: true }).extend({
  tail: z.coerce.number().int().min(0).max(5000).default(200),
});
type FollowQuery = z.infer<typeof FollowQuery>;

export const applicationLogs = defineStream({
  path: '/ws/applications/:id/logs',
  summary: 'Output of an application: its last lines, then live ones',
  on: ['application', 'id'],
  query: FollowQuery,
  check({ view, clock }, { it, query }) {
    if (view.agent(it.desired.server_id) === undefined)
      throw serviceUnavailable('The agent of the server is not connected');
    followOf(query, scopeOf(it.meta.id), clock);
  },
  async run(ctx, { it, query, channel }) {
    const { id } = it.meta;
    channel.send({ type: 'ready', cursor: query.cursor ?? null });
    const follow = followOf(query, scopeOf(id), ctx.clock);
    if (follow === undefined) {
      await untilClosed(channel.signal);
      return 'closed';
    }
    const source = { kind: 'application', id, name: it.desired.name } as const;
    await followLines(ctx, it.desired.server_id, follow, source, channel, channel.signal);
    return 'closed';
  },
});

function scopeOf(workload: string): LogScope {
  return { workload, streams: ['stdout', 'stderr', 'system'] };
}

export const deploymentLogs = defineStream({
  path: '/ws/deployments/:id/logs',
  summary: 'Output of the build of a deployment from its first line, and its status, until it has come to its end',
  on: ['deployment', 'id'],
  query: FollowQuery.omit({ tail: true, since: true, instance_id: true, stream: true }),
  check(ctx, { query }) {
    logQueryOf({ ...query, tail: 1 }, { workload: '' }, ctx.clock);
  },
  async run(ctx, { it, query, channel }) {
    const { view, tenant, mirror, clock } = ctx;
    const { id } = it.meta;
    const cursor = query.cursor ?? '0';
    channel.send({ type: 'ready', cursor });
    const scope = { workload: it.desired.application_id, instances: [buildInstanceOf(id)] };
    const follow = followOf({ ...query, tail: limits.pageLines, cursor }, scope, clock);
    const name = view.get('application', it.desired.application_id)?.desired.name ?? '';
    const source = { kind: 'deployment', id, name } as const;

    const over = new AbortController();
    let told: string | undefined;
    const tell = (): void => {
      const now = view.get('deployment', id);
      if (now === undefined) return;
      const status = deploymentStatus(now);
      if (status !== told) channel.send({ type: 'status', status });
      told = status;
      if (!isUnfinished(now)) over.abort();
    };
    const unsubscribe = mirror.subscribe((change) => {
      if (change.id === id && change.tenant === tenant) tell();
    });
    try {
      tell();
      if (follow === undefined) return await untilClosed(over.signal).then(() => told ?? 'gone');
      const seen = await followLines(
        ctx,
        it.desired.server_id,
        follow,
        source,
        channel,
        AbortSignal.any([channel.signal, over.signal]),
      );
      if (over.signal.aborted)
        await sendRest(ctx, it.desired.server_id, { ...follow, after_seq: seen }, source, channel);
    } finally {
      unsubscribe();
    }
    return told ?? 'gone';
  },
});

function followOf(query: FollowQuery, scope: LogScope, clock: StreamContext['clock']): LogFollow | undefined {
  return logQueryOf(query, scope, clock);
}

/**
 * Sends lines until the signal aborts or the agent says that there will be none. An agent that goes away is waited for:
 * the number of the last line says where to go on. A slow reader stops the agent, which drops the oldest lines and says
 * how many. Answers with the number of the last line.
 */
async function followLines(
  ctx: StreamContext,
  server: string,
  follow: LogFollow,
  source: LogSource,
  channel: Channel,
  signal: AbortSignal,
): Promise<number> {
  let seen = follow.after_seq ?? 0;
  let from: LogFollow = follow;
  const isOver = (): boolean => signal.aborted;
  while (!isOver()) {
    try {
      for await (const chunk of ctx.agents.stream(ctx.tenant, server, { kind: 'logs', follow: from }, { signal })) {
        sendChunk(channel, chunk, source);
        seen = chunk.lines.at(-1)?.seq ?? seen;
        if (seen > 0) from = { ...follow, after_seq: seen };
        await channel.drained();
        if (chunk.end === true || isOver()) return seen;
      }
    } catch (error) {
      if (isOver()) break;
      if (!(error instanceof CallError)) throw error;
    }
    await agentBack(ctx, server, signal);
  }
  return seen;
}

/** Waits for a new session of the agent, or a while where it has one. */
async function agentBack({ mirror, tenant, clock }: StreamContext, server: string, signal: AbortSignal): Promise<void> {
  const key = keys.agent(tenant, server);
  const waiting = new AbortController();
  const unsubscribe = mirror.subscribeKeys((change) => {
    if (change.key === key && change.after !== undefined) waiting.abort();
  });
  const either = AbortSignal.any([signal, waiting.signal]);
  try {
    if (mirror.key(key) === undefined) await untilClosed(either);
    // the session that is there has just refused or broken the stream
    else await wait(clock, limits.retryMs, either).catch(() => undefined);
  } finally {
    unsubscribe();
  }
}

/** Lines that came between the last one that was sent and the end; none if the agent is away. */
async function sendRest(
  ctx: StreamContext,
  server: string,
  follow: LogFollow,
  source: LogSource,
  channel: Channel,
): Promise<void> {
  const { tenant } = ctx;
  const options = { timeoutMs: limits.readTimeoutMs, signal: channel.signal };
  let after: number | undefined = follow.after_seq ?? 0;
  try {
    while (after !== undefined && !channel.signal.aborted) {
      const query = { ...follow, tail: limits.pageLines, after_seq: after };
      const { lines, next_seq } = LogPage.parse(
        await ctx.agents.call(tenant, server, { method: 'logs.read', query }, options),
      );
      sendChunk(channel, { lines }, source);
      await channel.drained();
      after = next_seq;
    }
  } catch (error) {
    if (!(error instanceof CallError) && !channel.signal.aborted) throw error;
  }
}
