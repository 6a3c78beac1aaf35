import type { Bench } from './bench.ts';
import { Child } from './child.ts';
import { createApplications, startControlPlane } from './control-plane.ts';
import { load } from './http-load.ts';
import type { ExpressMethods } from './programs/express.ts';

const clients = 16;

export const bench: Bench = {
  id: 'P4, P5',
  async run({ compareAll }) {
    await using plane = await startControlPlane('file');
    const [one] = await createApplications(plane, 100);
    const paths = { list: '/default/api/v1/applications', one: `/default/api/v1/applications/${one?.id ?? ''}` };
    const body = async (path: string): Promise<string> => {
      const answer = await fetch(plane.url + path, { headers: { authorization: `Bearer ${plane.token}` } });
      return answer.text();
    };
    const bodies = { list: await body(paths.list), one: await body(paths.one) };
    await using express = await Child.start<ExpressMethods>('express', bodies);
    const bare = await express.call('url');
    const ours = (path: string) => load(plane.url, clients, () => ({ method: 'GET', path, token: plane.token }));
    const raw = (path: string) => load(bare, clients, () => ({ method: 'GET', path }));

    const kilobytes = Math.round(bodies.list.length / 1000);
    await compareAll({
      figures: {
        perSecond: {
          what: `list of 100 applications (${kilobytes} KB), 16 clients; raw: bare express, the same bytes`,
          unit: 'per s',
          goal: { atLeast: 15_000, of: 'ours' },
        },
        p99: { what: 'the same, p99', unit: 'ms', goal: { atMost: 10, of: 'ours' } },
      },
      raw: () => raw('/list/1'),
      ours: () => ours(paths.list),
    });
    await compareAll({
      figures: {
        perSecond: {
          what: 'read of one application, 16 clients; raw: bare express, the same bytes',
          unit: 'per s',
          goal: { atLeast: 0.6 },
        },
        p99: { what: 'the same, p99', unit: 'ms' },
      },
      raw: () => raw('/one/1'),
      ours: () => ours(paths.one),
    });
  },
};
