import { afterEach, beforeEach, expect, it } from 'vitest';
import { pino } from 'pino';
import { createReadiness } from '../../api/pages/readiness.ts';
import { createFreshness } from '../../api/endpoint/freshness.ts';
import { systemClock } from '../../time/clock.ts';
import { unavailable } from '../../store/errors.ts';
import { startMirror } from '../../store/store-mirror.ts';
import { openSqlite } from '../../store/sqlite/open.ts';
import { startApi } from '../harness/api.ts';
import type { ApiWorld } from '../harness/api.ts';
import { FailingStore } from '../harness/failing-store.ts';
import { LaggingStore } from '../harness/lagging-store.ts';
import { until } from '../harness/until.ts';

let world: ApiWorld;
let store: FailingStore;
let lagging: LaggingStore;

beforeEach(async () => {
  world = await startApi({ wrap: (inner) => (store = new FailingStore((lagging = new LaggingStore(inner)))) });
});
afterEach(async () => {
  lagging.release();
  store.heal();
  await world[Symbol.asyncDispose]();
});

async function readyz(): Promise<{ status: number; message: string | undefined }> {
  const answer = await fetch(`${world.url}/readyz`);
  const body = (await answer.json()) as { error?: { message: string } };
  return { status: answer.status, message: body.error?.message };
}

it('is given while the store answers and the mirror follows it', async () => {
  expect(await readyz()).toEqual({ status: 200, message: undefined });
});

it('is not given while the store does not answer, and again afterwards', async () => {
  store.reads = unavailable('down');
  expect(await readyz()).toMatchObject({ status: 503, message: expect.stringContaining('does not answer') });
  store.heal();
  expect((await readyz()).status).toBe(200);
});

it('is not given while the mirror does not follow the store', async () => {
  lagging.hold();
  await store.txn({ if: [], then: [{ put: '/setpoint/1/c/replica/x', value: '' }] });
  expect(await readyz()).toMatchObject({ status: 503, message: expect.stringContaining('behind') });
  lagging.release();
  expect((await readyz()).status).toBe(200);
});

it('is not given while the store takes no writes, with the remedy', async () => {
  store.sized = { bytes: 100, room: 0 };
  const refused = await until('the replica is not ready', async () => {
    const answer = await readyz();
    return answer.status === 503 && answer;
  });
  expect(refused.message).toMatch(/full.*docs\/operations\.md/);
  store.heal();
  await until('the replica is ready', async () => (await readyz()).status === 200);
});

it('is not given before the mirror is filled, nor by a replica that is closing', async () => {
  await using inner = await openSqlite({ path: ':memory:' });
  const broken = new FailingStore(inner);
  broken.reads = unavailable('down');
  await using mirror = startMirror({ store: broken, clock: systemClock, log: pino({ level: 'silent' }) });
  let isDraining = false;
  const fresh = createFreshness(broken, mirror, systemClock);
  const readiness = createReadiness({ store: broken, mirror, clock: systemClock, fresh, isDraining: () => isDraining });
  expect((await readiness())?.message).toContain('starting');
  broken.heal();
  await mirror.ready;
  expect(await readiness()).toBeUndefined();
  isDraining = true;
  expect((await readiness())?.message).toContain('closing');
});
