import { pino } from 'pino';
import { Registry } from 'prom-client';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { systemClock } from '../../time/clock.ts';
import { isUnavailable } from '../../store/errors.ts';
import { openEtcd } from '../../store/etcd/open.ts';
import { keys } from '../../store/keys.ts';
import { startMirror } from '../../store/store-mirror.ts';
import type { Mirror } from '../../store/mirror.ts';
import { openRepository } from '../../store/repo.ts';
import type { Repository } from '../../store/repo.ts';
import type { Store } from '../../store/store.ts';
import { randomId } from '../harness/random-id.ts';
import { startEtcd } from '../harness/etcd.ts';
import type { EtcdServer } from '../harness/etcd.ts';
import { until } from '../harness/until.ts';
import { expectMirrored } from '../store/mirrored.ts';
import { desiredState, projectObserved } from '../harness/states.ts';

let cleanup: AsyncDisposableStack;
let server: EtcdServer;
let store: Store;
let repo: Repository;
let mirror: Mirror;
const registry = new Registry();

beforeAll(async () => {
  cleanup = new AsyncDisposableStack();
  server = cleanup.use(await startEtcd());
  store = cleanup.use(await openEtcd({ hosts: [server.host] }));
  repo = openRepository(store, 'acme', systemClock);
  const log = pino({ level: 'silent' });
  mirror = cleanup.use(startMirror({ store, clock: systemClock, log, registry, checkEveryMs: 200 }));
  await mirror.ready;
});

afterAll(() => cleanup.disposeAsync());

async function write(count: number): Promise<void> {
  for (let n = 0; n < count; n++) {
    const unit = repo.begin();
    const it = unit.create('project', randomId(), desiredState('project'));
    await unit.commit();
    if (n % 2 === 0) await repo.observe(it, projectObserved('active'), []);
    if (n % 3 === 0) await remove(it.meta.id);
  }
}

async function counted(name: string): Promise<number> {
  const metrics = await registry.getMetricsAsJSON();
  return metrics.find((metric) => metric.name === name)?.values[0]?.value ?? Number.NaN;
}

async function remove(id: string): Promise<void> {
  const it = (await repo.get('project', id))!;
  const unit = repo.begin();
  unit.requestDelete(it);
  unit.release(it, 'project');
  await unit.commit();
}

/** The first calls after a restart may find their connections dead. */
async function untilAnswered(): Promise<void> {
  for (;;) {
    try {
      await store.revision();
      return;
    } catch (error) {
      if (!isUnavailable(error)) throw error;
    }
  }
}

describe('A mirror of a real etcd', () => {
  it('follows writes', async () => {
    await write(30);
    expect(await expectMirrored(store, mirror)).toHaveLength(20);
  });

  it('is compared with it while writes go on, without a difference', async () => {
    const before = await counted('setpoint_mirror_checks_total');
    await until('it is compared', async () => {
      await write(9);
      return (await counted('setpoint_mirror_checks_total')) > before + 3;
    });
    expect(await counted('setpoint_mirror_corrections_total')).toBe(0);
    await expectMirrored(store, mirror);
  });

  it('goes on after a restart of the server', async () => {
    await server.restart();
    await untilAnswered();
    await write(12);
    await expectMirrored(store, mirror);
  });

  it('goes on after a compaction that it slept through', async () => {
    await server.kill();
    server.launch();
    await server.ready();
    await using other = await openEtcd({ hosts: [server.host] });
    const elsewhere = openRepository(other, 'acme', systemClock);
    for (const { meta } of mirror.tenant('acme').list('project').slice(0, 5))
      await elsewhere.change('project', meta.id, (draft) => (draft.description = 'changed elsewhere'));
    await other.compact(await other.revision());
    await untilAnswered();
    await expectMirrored(store, mirror);
    expect(mirror.tenant('acme').list('project')[0]?.desired.description).toBe('changed elsewhere');
  });

  it('becomes equal to a cluster that was restored from a snapshot', async () => {
    const snapshot = await server.snapshot();
    const before = await expectMirrored(store, mirror);
    await write(9);
    await store.txn({ if: [], then: [{ put: keys.leader('controllers'), value: 'lost' }] });
    await expectMirrored(store, mirror);
    const { incarnation } = store;
    await server.restore(snapshot, 'another-cluster');
    await until('the mirror meets the other history', async () => store.incarnation !== incarnation);
    const after = await expectMirrored(store, mirror);
    expect(after.map((it) => it.meta.id)).toEqual(before.map((it) => it.meta.id));
    expect(mirror.key(keys.leader('controllers'))).toBeUndefined();
    await write(3);
    await expectMirrored(store, mirror);
  });
});
