import { startEtcd } from '../test/harness/etcd.ts';
import type { Bench, BenchContext } from './bench.ts';
import { createApplications, startControlPlane } from './control-plane.ts';
import { load } from './http-load.ts';
import { throughput } from './measure.ts';
import type { Goal } from './measure.ts';
import { rawEtcd, rawSqlite } from './raw-transaction.ts';
import type { RawTransactions } from './raw-transaction.ts';

export const bench: Bench = {
  id: 'P3',
  async run(context) {
    {
      await using raw = await rawSqlite();
      const goal: Goal = { atMost: 1.5, of: 'ours' };
      await measureWrites(context, { name: 'SQLite', store: 'file', raw, goals: { one: goal, sixteen: goal } });
    }
    await using etcd = await startEtcd([], { onDisk: true });
    // A separate cluster, because a store must serve only this product.
    await using bare = await startEtcd([], { onDisk: true });
    await using raw = await rawEtcd(bare.host);
    const goals = { one: { atMost: 2 }, sixteen: { atMost: 3 } };
    await measureWrites(context, { name: 'etcd', store: `etcd://${etcd.host}`, raw, goals });
  },
};

async function measureWrites(
  { compareAll }: BenchContext,
  {
    name,
    store,
    raw,
    goals,
  }: { name: string; store: string; raw: RawTransactions; goals: Record<'one' | 'sixteen', Goal> },
): Promise<void> {
  await using plane = await startControlPlane(store);
  const applications = await createApplications(plane, 16);
  let n = 0;
  const put = (clients: number) =>
    load(plane.url, clients, (client) => ({
      method: 'PUT',
      path: `/default/api/v1/applications/${applications[client]?.id ?? ''}`,
      token: plane.token,
      body: JSON.stringify({ healthcheck_path: `/health/${(n += 1)}`, watch_paths: 'source/**' }),
    }));
  for (const [clients, who, goal] of [
    [1, '1 client', goals.one],
    [16, '16 clients', goals.sixteen],
  ] as const) {
    await compareAll({
      figures: {
        p50: { what: `PUT application on ${name}, ${who}, p50; raw: one transaction`, unit: 'ms', goal },
        p99: { what: 'the same, p99', unit: 'ms' },
        perSecond: { what: 'the same', unit: 'per s' },
      },
      raw: () => throughput((client) => raw.replace(client), clients),
      ours: () => put(clients),
    });
  }
}
