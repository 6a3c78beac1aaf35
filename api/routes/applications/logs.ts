import { successes } from '../../../store/serving.ts';
import { defineEndpoint } from '../../endpoint/endpoint.ts';
import { serviceInstancesOf } from '../../workloads/instance-ids.ts';
import { Logs, LogsQuery } from '../../workloads/log-query.ts';
import { readLogs } from '../../workloads/read-logs.ts';

export const readRuntimeLogs = defineEndpoint({
  method: 'GET',
  path: '/applications/:id/runtime-logs',
  summary: 'Output of the instances of an application, also of ones that are gone',
  on: ['application', 'id'],
  query: LogsQuery,
  response: Logs,
  handle: async (ctx, { it, query }) => {
    const streams = ['stdout', 'stderr', 'system'] as const;
    const scope = { workload: it.meta.id, streams };
    if (query.previous !== 'true') return readLogs(ctx, it.desired.server_id, query, scope);
    const [, previous] = successes(ctx.view, it.meta.id);
    const instances = previous === undefined ? [] : serviceInstancesOf(previous.meta.id);
    return readLogs(ctx, it.desired.server_id, query, { ...scope, instances });
  },
});

export const readBuildLogs = defineEndpoint({
  method: 'GET',
  path: '/applications/:id/build-logs',
  summary: 'Output of the builds of an application',
  on: ['application', 'id'],
  query: LogsQuery,
  response: Logs,
  handle: async (ctx, { it, query }) =>
    readLogs(ctx, it.desired.server_id, query, { workload: it.meta.id, streams: ['build'] }),
});
