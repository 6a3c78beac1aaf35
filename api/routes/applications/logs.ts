import { z } from 'zod';
import { successes } from '../../../store/serving.ts';
import { defineEndpoint } from '../../endpoint/endpoint.ts';
import { ServiceName } from '../../resources/fields.ts';
import { imageLogOf } from '../../workloads/image-log.ts';
import { instancesOfService, serviceInstancesOf } from '../../workloads/instance-ids.ts';
import { Logs, LogsQuery } from '../../workloads/log-query.ts';
import { readLogs } from '../../workloads/read-logs.ts';

const OfApplication = LogsQuery.extend({
  previous: z.enum(['true', 'false']).optional().meta({ description: 'Of the deployment before the one that serves' }),
});

export const readRuntimeLogs = defineEndpoint({
  method: 'GET',
  path: '/applications/:id/runtime-logs',
  summary: 'Output of the instances of an application, also of ones that are gone',
  on: ['application', 'id'],
  query: OfApplication.extend({ service: ServiceName }),
  response: Logs,
  handle: async (ctx, { it, query }) => {
    const streams = ['stdout', 'stderr', 'system'] as const;
    const scope = { workload: it.meta.id, streams };
    if (query.previous !== 'true') {
      const { service } = query;
      const of = service === undefined ? {} : { instances: instancesOfService(ctx.view, it.meta.id, service) };
      return readLogs(ctx, it.desired.server_id, query, { ...scope, ...of });
    }
    const [, previous] = successes(ctx.view, it.meta.id);
    const instances = previous === undefined ? [] : serviceInstancesOf(previous, query.service);
    return readLogs(ctx, it.desired.server_id, query, { ...scope, instances });
  },
});

export const readBuildLogs = defineEndpoint({
  method: 'GET',
  path: '/applications/:id/build-logs',
  summary: 'How the images of an application were built or pulled',
  on: ['application', 'id'],
  query: OfApplication,
  response: Logs,
  handle: async (ctx, { it, query }) => {
    // why a build failed is in `system`
    const all = { workload: it.meta.id, streams: ['build', 'system'] as const };
    const [, previous] = query.previous === 'true' ? successes(ctx.view, it.meta.id) : [];
    const none = { ...all, instances: [] };
    const scope = query.previous !== 'true' ? all : previous === undefined ? none : imageLogOf(previous);
    return readLogs(ctx, it.desired.server_id, query, scope);
  },
});
