import { defineEndpoint } from '../../endpoint/endpoint.ts';
import { Reference } from '../../resources/object-fields.ts';
import { ApplicationMetrics, MetricsRange, readWorkloadMetrics } from '../../workloads/metrics.ts';

export const getApplicationMetrics = defineEndpoint({
  method: 'GET',
  path: '/applications/:id/metrics',
  summary: 'Processor, memory, network and disk of the instances of an application together, or of one of them',
  on: ['application', 'id'],
  query: MetricsRange.extend({
    instance_id: Reference.optional().meta({ description: 'Also of one that is gone; by default the sum of all' }),
  }),
  response: ApplicationMetrics,
  handle: async (ctx, { it, query }) => {
    const of = { id: it.meta.id, server: it.desired.server_id };
    return { application_id: of.id, server_id: of.server, ...(await readWorkloadMetrics(ctx, of, query)) };
  },
});
