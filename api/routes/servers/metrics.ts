import { defineEndpoint } from '../../endpoint/endpoint.ts';
import { MetricsRange, readServerMetrics, ServerMetrics } from '../../workloads/metrics.ts';

export const getServerMetrics = defineEndpoint({
  method: 'GET',
  path: '/servers/:id/metrics',
  summary:
    'Processor, memory, disk and network of a server: an hour in steps of 5 s, a week in steps of 5 min; users of projects see no network and no workloads',
  on: ['server', 'id'],
  query: MetricsRange,
  response: ServerMetrics,
  handle: (ctx, { it, query }) => readServerMetrics(ctx, it.meta.id, query, ctx.access.grant === 'm'),
});
