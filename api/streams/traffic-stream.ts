import { windowMs } from '../../agent-protocol/traffic.ts';
import { every } from '../../time/every.ts';
import { lackOfTraffic, requireTraffic, trafficFrame } from '../workloads/traffic.ts';
import { LiveQuery, readyNow } from './live.ts';
import { defineStream } from './stream.ts';
import { untilClosed } from './until-closed.ts';

export const applicationTraffic = defineStream({
  path: '/ws/applications/:id/traffic',
  summary:
    'Requests to an application every 5 s; a frame `unavailable` says why they are not counted, until there are frames again',
  on: ['application', 'id'],
  query: LiveQuery,
  check({ view }, { it }) {
    if (lackOfTraffic(view, it) === undefined) requireTraffic(view.agent(it.desired.server_id));
  },
  async run({ traffic, tenant, view, clock }, { it, channel }) {
    const { id } = it.meta;
    let told = '';
    /** Returns whether there are figures now. */
    const tell = (): boolean => {
      const present = view.get('application', id);
      const lack = present && lackOfTraffic(view, present);
      const text = JSON.stringify(lack ?? null);
      if (lack !== undefined && text !== told) channel.send({ type: 'unavailable', ...lack });
      told = text;
      return lack === undefined;
    };
    channel.send(readyNow(clock));
    tell();
    const stop = every(clock, windowMs, tell);
    const end = traffic.subscribe({ tenant, server: it.desired.server_id, id }, (sample) => {
      // A reader that has not taken the last frame is not sent this one, but the next one once it has.
      if (!channel.isBehind && tell()) channel.send(trafficFrame(sample));
    });
    try {
      await untilClosed(channel.signal);
    } finally {
      end();
      stop();
    }
    return 'closed';
  },
});
