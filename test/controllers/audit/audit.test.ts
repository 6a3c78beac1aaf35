import { pino } from 'pino';
import { expect, test } from 'vitest';
import { audit } from '../../../controllers/audit/audit.ts';
import { limits } from '../../../controllers/runtime/limits.ts';
import { installationLog } from '../../../store/audit/record.ts';
import { verifyChain } from '../../../store/audit/verify.ts';
import { keys } from '../../../store/keys.ts';
import { startMirror } from '../../../store/store-mirror.ts';
import { unavailable } from '../../../store/errors.ts';
import { createTenant } from '../../../store/tenants.ts';
import { chained, chainOf, pendingOf, record } from '../../harness/audit.ts';
import { openRig, tenant } from '../runtime/rig.ts';
import type { Rig } from '../runtime/rig.ts';

const day = 24 * 3_600_000;

async function leading(retention = { keepMs: 90 * day, maxRecords: 1000 }): Promise<Rig> {
  const rig = await openRig({ background: [audit(retention)] });
  await createTenant(rig.store, tenant, rig.clock);
  await rig.rest();
  return rig;
}
const verify = (rig: Rig, of = tenant) => verifyChain(rig.store, of, AbortSignal.timeout(10_000));
const now = (rig: Rig) => () => rig.clock.now().getTime();

test('the leader chains what was recorded, of every tenant and of the installation, soon after', async () => {
  await using rig = await leading();
  await createTenant(rig.store, 'other', rig.clock);
  for (const owner of [tenant, 'other', installationLog]) await record(rig.store, owner, 3, now(rig));
  await rig.rest();
  await rig.clock.advance(limits.audit.gatherMs);
  await rig.rest();
  for (const owner of [tenant, 'other', installationLog])
    expect(await verify(rig, owner)).toMatchObject({ ok: true, count: 3 });
});

test('records that were written while nobody led are chained by the next leader', async () => {
  await using rig = await openRig();
  await createTenant(rig.store, tenant, rig.clock);
  await record(rig.store, tenant, 40, now(rig));
  rig.replica('second', [], [audit({ keepMs: day, maxRecords: 1000 })]);
  await rig.controllers[Symbol.asyncDispose]();
  await rig.clock.advance(30_000);
  await rig.rest();
  expect(await verify(rig)).toMatchObject({ ok: true, count: 40 });
});

test('at rest nothing is written, however often is looked', async () => {
  await using rig = await leading();
  await record(rig.store, tenant, 5, now(rig));
  await rig.clock.advance(limits.audit.gatherMs);
  await rig.rest();
  rig.store.reset();
  await rig.clock.advance(10 * limits.audit.sweepMs);
  expect(rig.store.keys).toEqual([]);
  expect(await verify(rig)).toMatchObject({ ok: true, count: 5 });
});

test('what is too old or too much is forgotten by itself', async () => {
  await using rig = await leading({ keepMs: 2 * day, maxRecords: 10 });
  await record(rig.store, tenant, 25, now(rig));
  await rig.clock.advance(2 * limits.audit.sweepMs);
  expect(await verify(rig)).toMatchObject({ ok: true, count: 10, anchor: { seq: 15 } });
  expect(await rig.metric('setpoint_audit_forgotten_early_total')).toBe(15);
  await rig.clock.advance(2 * day);
  expect(await verify(rig)).toMatchObject({ ok: true, count: 0, head: { seq: 25 }, anchor: { seq: 25 } });
});

test('a wall clock that jumps ahead takes no record away', async () => {
  await using rig = await leading({ keepMs: 90 * day, maxRecords: 1000 });
  await record(rig.store, tenant, 5, now(rig));
  await rig.clock.advance(2 * limits.audit.sweepMs);
  rig.clock.jump(10 * 365 * day);
  await rig.clock.advance(2 * limits.audit.sweepMs);
  expect(await verify(rig)).toMatchObject({ ok: true, count: 5 });
});

test('a store that is away for a while leaves no record behind', async () => {
  await using rig = await leading();
  const txn = rig.store.txn.bind(rig.store);
  await record(rig.store, tenant, 3, now(rig));
  let refused = 0;
  rig.store.txn = async (it) => {
    if (refused === 2 || !it.then.some((write) => 'put' in write && write.put === keys.auditHead(tenant)))
      return txn(it);
    refused += 1;
    throw unavailable('it is away');
  };
  await rig.clock.advance(limits.audit.gatherMs + 3 * limits.audit.failureMs);
  await rig.rest();
  expect(refused).toBe(2);
  expect(await verify(rig)).toMatchObject({ ok: true, count: 3 });
});

test('old records that a pass could not remove are removed by a later one', async () => {
  await using rig = await leading({ keepMs: 2 * day, maxRecords: 10 });
  await record(rig.store, tenant, 25, now(rig));
  await rig.clock.advance(limits.audit.gatherMs);
  await rig.rest();
  const txn = rig.store.txn.bind(rig.store);
  let refused = 0;
  rig.store.txn = (it) => {
    if (!it.then.some((write) => 'delete' in write && write.delete === keys.auditChained(tenant, 1))) return txn(it);
    refused += 1;
    return Promise.reject(unavailable('it is away'));
  };
  await rig.clock.advance(2 * limits.audit.sweepMs);
  expect(refused).toBeGreaterThan(0);
  expect(await verify(rig)).toMatchObject({ ok: true, count: 25 });
  rig.store.txn = txn;
  await rig.clock.advance(limits.audit.sweepMs);
  expect(await verify(rig)).toMatchObject({ ok: true, count: 10, anchor: { seq: 15 } });
});

test('nothing is chained into a tenant that is gone', async () => {
  await using rig = await leading();
  await record(rig.store, 'gone', 2, now(rig));
  await rig.clock.advance(limits.audit.gatherMs + 2 * limits.audit.failureMs);
  await rig.rest();
  expect(await chainOf(rig.store, 'gone')).toEqual([]);
  expect(await pendingOf(rig.store, 'gone')).toBe(2);
});

test('a mirror that fills steps over a long log, and still has what lies behind it', async () => {
  await using rig = await openRig();
  await createTenant(rig.store, tenant, rig.clock);
  await chained(rig.store, tenant, 2500);
  await record(rig.store, tenant, 10);
  const project = keys.desired(tenant, 'widget', 'of-a-kind-to-come');
  await rig.store.txn({ if: [], then: [{ put: keys.idempotency(tenant, 'x'), value: '{}' }] });
  await rig.store.txn({ if: [], then: [{ put: project, value: '{}' }] });
  rig.store.reset();
  await using mirror = startMirror({ store: rig.store, clock: rig.clock, log: pino({ level: 'silent' }) });
  await mirror.ready;
  expect(rig.store.reads).toBe(2);
  expect(mirror.key(keys.idempotency(tenant, 'x'))?.value).toBe('{}');
  expect(mirror.tenants()).toContain(tenant);
});
