import { z } from 'zod';
import type { LogFollow } from '../../agent-protocol/logs.ts';
import { agentAway } from '../ground/api-error.ts';
import { buildInstanceOf } from '../workloads/instance-ids.ts';
import { logQueryOf, LogsQuery } from '../workloads/log-query.ts';
import type { LogScope } from '../workloads/log-query.ts';
import { deploymentStatus, isUnfinished } from '../resources/status.ts';
import { channelSink } from './log-sink.ts';
import { LogTail } from './log-tail.ts';
import { defineStream } from './stream.ts';
import type { StreamContext } from './stream.ts';
import { untilClosed } from './until-closed.ts';

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
    if (view.agent(it.desired.server_id) === undefined) throw agentAway();
    followOf(query, scopeOf(it.meta.id), clock);
  },
  async run(ctx, { it, query, channel }) {
    const { id } = it.meta;
    const follow = followOf(query, scopeOf(id), ctx.clock);
    const ready = (cursor: string): void => channel.send({ type: 'ready', cursor });
    if (follow === undefined) {
      ready(query.cursor ?? '0');
      await untilClosed(channel.signal);
      return 'closed';
    }
    if (query.cursor !== undefined) ready(query.cursor);
    const source = { kind: 'application', id, name: it.desired.name } as const;
    const server = it.desired.server_id;
    const begins = (after: number): void => ready(String(after));
    await new LogTail(ctx, { server, follow, sink: channelSink(channel, source), begins }).run(channel.signal);
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
    const follow = followOf({ ...query, tail: 0, cursor }, scope, clock);
    const name = view.get('application', it.desired.application_id)?.desired.name ?? '';
    const source = { kind: 'deployment', id, name } as const;

    const over = new AbortController();
    let sent: string | undefined;
    const sendStatus = (): void => {
      const now = view.get('deployment', id);
      if (now === undefined) return;
      const status = deploymentStatus(now);
      if (status !== sent) channel.send({ type: 'status', status });
      sent = status;
      if (!isUnfinished(now)) over.abort();
    };
    const unsubscribe = mirror.subscribe((change) => {
      if (change.id === id && change.tenant === tenant) sendStatus();
    });
    try {
      sendStatus();
      if (follow === undefined) return 'nothing to follow';
      const tail = new LogTail(ctx, { server: it.desired.server_id, follow, sink: channelSink(channel, source) });
      if (!over.signal.aborted) await tail.run(AbortSignal.any([channel.signal, over.signal]));
      if (over.signal.aborted) await tail.finish(channel.signal);
    } finally {
      unsubscribe();
    }
    return sent ?? 'gone';
  },
});

function followOf(query: FollowQuery, scope: LogScope, clock: StreamContext['clock']): LogFollow | undefined {
  return logQueryOf(query, scope, clock);
}
