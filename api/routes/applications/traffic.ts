import { defineEndpoint } from '../../endpoint/endpoint.ts';
import { Reference } from '../../resources/object-fields.ts';
import { ApplicationTraffic, readTraffic, TrafficRange } from '../../workloads/traffic.ts';

export const getApplicationTraffic = defineEndpoint({
  method: 'GET',
  path: '/applications/:id/traffic',
  summary:
    'Requests to an application by its domains, of the last hour, in steps of at least 5 s: statuses, latencies, bytes',
  on: ['application', 'id'],
  query: TrafficRange.extend({
    instance_id: Reference.optional().meta({ description: 'Also of one that is gone; by default all of them' }),
  }),
  response: ApplicationTraffic,
  handle: (ctx, { it, query }) => readTraffic(ctx, it, query),
});
