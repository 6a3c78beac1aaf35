/** A replica of the control plane as `setpoint server` runs it, but without limits on requests and streams. */
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { pino } from 'pino';
import { collectDefaultMetrics, Registry } from 'prom-client';
import { systemRandom } from '../../api/ground/random.ts';
import { startReplica } from '../../cli/replica.ts';
import { systemClock } from '../../time/clock.ts';
import { openStore } from '../../store/open.ts';
import { openRepository } from '../../store/repo.ts';
import { openKeyring } from '../../store/seal.ts';
import { argument, serve } from '../parent.ts';

export interface ControlPlaneArgument {
  /** URL for `openStore`. */
  store: string;
  dataDir: string;
}

const unlimited = { perMinute: 1e9, burst: 1e9 };
const { store: storeUrl, dataDir } = await argument<ControlPlaneArgument>();
const registry = new Registry();
collectDefaultMetrics({ register: registry });
/** Quota of a cluster that exists for one benchmark. The limit of writes per minute depends on it. */
const quotaBytes = 256 * 1024 ** 3;
await using store = await openStore(storeUrl, { quotaBytes });
await using replica = await startReplica({
  store,
  keyring: await openKeyring({ path: join(dataDir, 'keys.json'), store }),
  clock: systemClock,
  random: systemRandom,
  uniform: Math.random,
  log: pino({ level: 'info' }, pino.destination({ dest: join(dataDir, 'log'), sync: false })),
  registry,
  replica: { id: randomUUID(), url: 'http://127.0.0.1:1', version: '0.0.0' },
  publicUrl: 'http://127.0.0.1:1',
  ownPorts: [],
  trustedProxies: [],
  buildDeadlineMs: 60_000,
  rolloutDeadlineMs: 60_000,
  auditKeepMs: 90 * 24 * 3_600_000,
  limits: { rateLimit: unlimited, heavyRateLimit: unlimited, streamsPerUser: 0 },
  strict: false,
});
replica.server.listen(0, '127.0.0.1');
await once(replica.server, 'listening');
const { port } = replica.server.address() as AddressInfo; // a TCP server has such an address
const repository = openRepository(store, 'default', systemClock);

const methods = {
  url: async () => `http://127.0.0.1:${port}`,
  /** Changes a project. Resolves with the time before the commit, in milliseconds since 1970, and its revision. */
  describeProject: async (id: string, description: string) => {
    const project = await repository.get('project', id);
    if (project === undefined) throw new Error(`There is no project ${id}`);
    const unit = repository.begin();
    unit.change<'project'>(project, (draft) => void (draft.description = description));
    // Taken before the commit: after it, frames may be sent before this function continues.
    const at = performance.timeOrigin + performance.now();
    const { revision } = await unit.commit();
    return { at, revision };
  },
};
export type ControlPlaneMethods = typeof methods;

await serve(methods);
