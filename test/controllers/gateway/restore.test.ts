import { randomBytes } from 'node:crypto';
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { pino } from 'pino';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { systemClock } from '../../../time/clock.ts';
import { startAgent } from '../../../agent/agent.ts';
import type { Agent } from '../../../agent/agent.ts';
import { engineOf } from '../../../agent/engine/engine.ts';
import { MockEngine } from '../../../agent/runtime/mock/mock-engine.ts';
import { stockImages } from '../../../agent/runtime/mock/mock-images.ts';
import { openStore } from '../../../store/open.ts';
import type { Store } from '../../../store/store.ts';
import { openImages } from '../../harness/open-images.ts';
import { eventually } from '../../harness/eventually.ts';
import { startEtcd } from '../../harness/etcd.ts';
import type { EtcdServer } from '../../harness/etcd.ts';
import { GatewayWorld, tenant } from '../../harness/gateway-world.ts';
import type { TestReplica } from '../../harness/gateway-world.ts';
import { until } from '../../harness/until.ts';

let cleanup: AsyncDisposableStack;
let etcd: EtcdServer;
let world: GatewayWorld;
let engine: MockEngine;

beforeEach(async () => {
  cleanup = new AsyncDisposableStack();
  etcd = cleanup.use(await startEtcd());
  const store = cleanup.use(await opened());
  world = cleanup.use(await GatewayWorld.start({ wrap: () => store }));
  engine = new MockEngine(systemClock);
  stockImages(engine);
}, 60_000);

afterEach(() => cleanup.disposeAsync());

const opened = (): Promise<Store & AsyncDisposable> => openStore(`etcd://${etcd.host}`);

/** The agent of that server on the engine of this test, with its data where it was. */
async function agentOf(replica: TestReplica, server: { id: string; token: string }): Promise<Agent> {
  const dataDir = join(world.folder, `agent-${server.id}`);
  const own = await engineOf({ type: 'mock', clock: systemClock, engine });
  await mkdir(dataDir, { recursive: true });
  const agent = await startAgent({
    controlPlane: [`${replica.url}/${tenant}`],
    joinToken: server.token,
    dataDir,
    engine: own,
    images: await openImages(own.runtime, dataDir),
    build: () => Promise.reject(new Error('No build is expected')),
    gitHead: () => Promise.reject(new Error('No git is expected')),
    gitTag: () => Promise.reject(new Error('No git is expected')),
    dockerfiles: () => Promise.reject(new Error('No git is expected')),
    gitVersion: async () => ({ major: 2, minor: 37, text: '2.37.0' }),
    repositories: () => Promise.reject(new Error('No git is expected')),
    disk: () => Promise.resolve({ freeBytes: 50e9, totalBytes: 100e9 }),
    logBytes: 1e9,
    version: '0',
    clock: systemClock,
    random: () => 0.01,
    log: pino({ level: process.env['TEST_LOG'] ?? 'silent' }),
  });
  cleanup.use(agent);
  return agent;
}

const names = (): string[] => engine.containers.map((it) => it.id).toSorted();

it('an agent that comes back to a restored etcd, which has grown beyond since, keeps all that is younger', async () => {
  const before = await world.replica();
  const server = await world.server();
  const agent = await agentOf(before, server);
  const assign = () => world.assignment(server.id, {}, { image: 'mock/http:1', alias: randomBytes(4).toString('hex') });
  const runs = (count: number) =>
    until(
      `${count} instances run`,
      async () => engine.containers.filter((it) => it.state === 'running').length === count,
      {
        timeoutMs: 15_000,
      },
    );
  const known = await assign();
  await runs(1);
  const snapshot = await etcd.snapshot();
  for (let n = 0; n < 3; n++) await assign();
  await runs(4);
  const all = names();
  const reached = await world.store.revision();

  await agent[Symbol.asyncDispose]();
  await before[Symbol.asyncDispose]();
  await etcd.restore(snapshot);
  const restored = cleanup.use(await opened());
  expect(await restored.revision()).toBeLessThan(reached);
  const after = await world.replica({ store: restored });
  while ((await restored.revision()) < reached + 100)
    await restored.txn({ if: [], then: [{ put: '/setpoint/1/c/meta/filler', value: randomBytes(4).toString('hex') }] });
  const back = await agentOf(after, server);

  const view = after.mirror.tenant(tenant);
  await eventually(after.mirror, () => view.heldRemovals(server.id), { timeoutMs: 20_000 });
  expect(view.heldRemovals(server.id)).toEqual({ held: 3, confirmed: false });
  // What follows the held set is taken, so that set has been.
  await world.repo.change('assignment', known.meta.id, (draft) => {
    draft.run = 'stopped';
  });
  await eventually(after.mirror, () => view.get('assignment', known.meta.id)?.observed?.phase === 'stopped', {
    timeoutMs: 20_000,
  });
  expect(back.backend.position()?.revision).toBeGreaterThan(reached);
  const gone = all.filter((id) => !names().includes(id));
  expect(gone.length).toBeLessThanOrEqual(1); // the container of what was stopped
  expect(engine.containers.filter((it) => it.state === 'running')).toHaveLength(3);
}, 90_000);
