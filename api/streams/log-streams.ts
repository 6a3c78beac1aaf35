import { z } from 'zod';
import type { LogFollow } from '../../agent-protocol/logs.ts';
import { agentAway } from '../ground/api-error.ts';
import { isKind } from '../../store/resource.ts';
import type { ReadonlyResource } from '../../store/resource.ts';
import { databaseLogOf } from '../workloads/database-log.ts';
import { ServiceName } from '../resources/fields.ts';
import { instancesOfService, runInstanceOf } from '../workloads/instance-ids.ts';
import { imageLogOf } from '../workloads/image-log.ts';
import { logQueryOf, LogsQuery } from '../workloads/log-query.ts';
import type { LogScope } from '../workloads/log-query.ts';
import { hasRunEnded } from '../../store/kinds/run.ts';
import { runStatus } from '../resources/run.ts';
import { deploymentStatus, isUnfinished } from '../resources/status.ts';
import type { Channel } from './channel.ts';
import { uncounted } from './gap.ts';
import { channelSink } from './log-sink.ts';
import { LogTail } from './log-tail.ts';
import { defineStream } from './stream.ts';
import type { StreamContext } from './stream.ts';
import { untilClosed } from './until-closed.ts';

const FollowQuery = LogsQuery.omit({ until: true }).extend({
  tail: z.coerce.number().int().min(0).max(5000).default(200),
});
type FollowQuery = z.infer<typeof FollowQuery>;

export const applicationLogs = defineStream({
  path: '/ws/applications/:id/logs',
  summary: 'Output of an application, or of one service of its compose file: its last lines, then live ones',
  on: ['application', 'id'],
  query: FollowQuery.extend({ service: ServiceName }),
  check({ view, clock }, { it, query }) {
    if (view.agent(it.desired.server_id) === undefined) throw agentAway();
    followOf(query, scopeOf(it.meta.id), clock);
  },
  async run(ctx, { it, query, channel }) {
    const { id } = it.meta;
    const { service, instance_id: instance } = query;
    const tail = await beginTail(ctx, channel, { it, query, scope: scopeOf(id), narrow });
    if (tail === undefined) return 'closed';
    // Each deployment has instances of its own.
    using subscriptions = new DisposableStack();
    if (service !== undefined)
      subscriptions.defer(
        ctx.mirror.subscribe(({ tenant, before, after }) => {
          const changed = after ?? before;
          if (tenant !== ctx.tenant || changed === undefined || !isKind(changed, 'deployment')) return;
          if (changed.desired.application_id === id) tail.select(ofService(service));
        }),
      );
    await tail.run(channel.signal);
    return 'closed';

    function narrow(follow: LogFollow): LogFollow {
      return service === undefined ? follow : { ...follow, instance_ids: ofService(service) };
    }
    function ofService(name: string): string[] {
      return instancesOfService(ctx.view, id, name).filter((one) => instance === undefined || one === instance);
    }
  },
});

export const databaseLogs = defineStream({
  path: '/ws/databases/:id/logs',
  summary: 'What a database writes: its last lines, then live ones',
  on: ['database', 'id'],
  query: FollowQuery,
  check({ view, clock }, { it, query }) {
    if (view.agent(it.desired.server_id) === undefined) throw agentAway();
    followOf(query, databaseLogOf(it), clock);
  },
  async run(ctx, { it, query, channel }) {
    const tail = await beginTail(ctx, channel, { it, query, scope: databaseLogOf(it) });
    await tail?.run(channel.signal);
    return 'closed';
  },
});

/** A workload whose lines are followed. `narrow`: leaves out some of its instances. */
interface Followed {
  it: ReadonlyResource<'application' | 'database'>;
  query: FollowQuery;
  scope: LogScope;
  narrow?: (follow: LogFollow) => LogFollow;
}

/** The tail of the last lines of a workload and of those that follow; `undefined` after a stream that can have no line. */
async function beginTail(
  ctx: StreamContext,
  channel: Channel,
  { it: { meta, desired }, query, scope, narrow = (follow) => follow }: Followed,
): Promise<LogTail | undefined> {
  const follow = followOf(query, scope, ctx.clock);
  const ready = (cursor: string): void => channel.send({ type: 'ready', cursor });
  if (follow === undefined) {
    ready(query.cursor ?? '0');
    await untilClosed(channel.signal);
    return undefined;
  }
  if (query.cursor !== undefined) ready(query.cursor);
  const sink = channelSink(channel, { kind: meta.kind, id: meta.id, name: desired.name });
  const begins = (after: number): void => ready(String(after));
  return new LogTail(ctx, { server: desired.server_id, follow: narrow(follow), sink, begins });
}

function scopeOf(workload: string): LogScope {
  return { workload, streams: ['stdout', 'stderr', 'system'] };
}

export const deploymentLogs = defineStream({
  path: '/ws/deployments/:id/logs',
  summary:
    'How the image of a deployment is built or pulled, from the first line, and its status, until it has come to its end',
  on: ['deployment', 'id'],
  query: FollowQuery.omit({ tail: true, since: true, instance_id: true, stream: true }),
  check(ctx, { query }) {
    logQueryOf({ ...query, tail: 1 }, { workload: '' }, ctx.clock);
  },
  async run(ctx, { it, query, channel }) {
    const { id } = it.meta;
    return untilEnd(ctx, channel, {
      object: { kind: 'deployment', id },
      query,
      scope: imageLogOf(it),
      server: it.desired.server_id,
      name: ctx.view.get('application', it.desired.application_id)?.desired.name ?? '',
      statusOf(view) {
        const now = view.get('deployment', id);
        return now && { status: deploymentStatus(now), isOver: !isUnfinished(now) };
      },
    });
  },
});

/** What has a log that ends with it. */
interface Ending {
  object: { kind: 'deployment' | 'run'; id: string };
  query: Omit<FollowQuery, 'tail'>;
  scope: LogScope;
  server: string;
  name: string;
  /** `undefined` once it is gone. */
  statusOf: (view: StreamContext['view']) => { status: string; isOver: boolean } | undefined;
}

/** Sends lines from the first one, and each status, until the object has ended and all its lines are sent. */
async function untilEnd(ctx: StreamContext, channel: Channel, it: Ending): Promise<string> {
  const { view, tenant, mirror, clock } = ctx;
  const cursor = it.query.cursor ?? '0';
  channel.send({ type: 'ready', cursor });
  const follow = followOf({ ...it.query, tail: 0, cursor }, it.scope, clock);
  const over = new AbortController();
  let sent: string | undefined;
  const sendStatus = (): void => {
    const now = it.statusOf(view);
    if (now === undefined) return;
    if (now.status !== sent) channel.send({ type: 'status', status: now.status });
    sent = now.status;
    if (now.isOver) over.abort();
  };
  const unsubscribe = mirror.subscribe((change) => {
    if (change.id === it.object.id && change.tenant === tenant) sendStatus();
  });
  try {
    sendStatus();
    if (follow === undefined) return 'nothing to follow';
    const sink = channelSink(channel, { ...it.object, name: it.name });
    const tail = new LogTail(ctx, { server: it.server, follow, sink });
    if (!over.signal.aborted) await tail.run(AbortSignal.any([channel.signal, over.signal]));
    if (over.signal.aborted) {
      const isWhole = await tail.finish(channel.signal);
      // A server that no agent has joined has no lines.
      const hasLines = view.get('server', it.server)?.desired.agent_public_key !== undefined;
      if (!isWhole && hasLines) channel.send({ type: 'gap', dropped: uncounted });
    }
  } finally {
    unsubscribe();
  }
  return sent ?? 'gone';
}

export const runLogs = defineStream({
  path: '/ws/runs/:id/logs',
  summary: 'Output of a command from its first line, and its status, until it has ended',
  on: ['run', 'id'],
  query: FollowQuery.omit({ tail: true, since: true, instance_id: true, stream: true }),
  check(ctx, { query }) {
    logQueryOf({ ...query, tail: 1 }, { workload: '' }, ctx.clock);
  },
  async run(ctx, { it, query, channel }) {
    const { id } = it.meta;
    return untilEnd(ctx, channel, {
      object: { kind: 'run', id },
      query,
      scope: { workload: id, instances: [runInstanceOf(id)] },
      server: it.desired.server_id,
      name: it.desired.name,
      statusOf(view) {
        const now = view.get('run', id);
        return now && { status: runStatus(now), isOver: hasRunEnded(runStatus(now)) };
      },
    });
  },
});

function followOf(query: FollowQuery, scope: LogScope, clock: StreamContext['clock']): LogFollow | undefined {
  return logQueryOf(query, scope, clock);
}
