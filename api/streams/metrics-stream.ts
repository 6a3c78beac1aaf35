import type { ServerSample } from '../../agent-protocol/metrics.ts';
import { asOfNow } from '../auth/authenticate.ts';
import { isTenantWide } from '../rights/authorize.ts';
import { networkOf, requireMetrics, shareOf } from '../workloads/metrics.ts';
import { LiveQuery, readyNow } from './live.ts';
import { defineStream } from './stream.ts';
import { untilClosed } from './until-closed.ts';

export const serverMetrics = defineStream({
  path: '/ws/servers/:id/metrics',
  summary: 'Processor, memory, disk and network of a server every 5 s; users of projects see no network',
  on: ['server', 'id'],
  query: LiveQuery,
  check: ({ view }, { it }) => requireMetrics(view.agent(it.meta.id)),
  async run({ samples, tenant, view, principal, clock }, { it, channel }) {
    channel.send(readyNow(clock));
    const end = samples.subscribe({ tenant, server: it.meta.id, id: it.meta.id }, (sample) => {
      // A reader that has not taken the last frame is not sent this one, but the next one once it has.
      if (!channel.isBehind) channel.send(frameOf(sample, isTenantWide(asOfNow(principal, view))));
    });
    try {
      await untilClosed(channel.signal);
    } finally {
      end();
    }
    return 'closed';
  },
});

function frameOf({ at, cores, values }: ServerSample, isWhole: boolean): object {
  return {
    type: 'metrics',
    timestamp: new Date(at).toISOString(),
    cpu: { percent: values.cpu_percent ?? null, cores, load1: values.load1 ?? null },
    memory: shareOf(values.memory_used_bytes, values.memory_total_bytes),
    disk: shareOf(values.disk_used_bytes, values.disk_total_bytes),
    ...(isWhole && { network: networkOf(values) }),
  };
}
