import { audit as chaining } from '../../../controllers/audit/audit.ts';
import { chainPending } from '../../../controllers/audit/chain.ts';
import { forgetOld } from '../../../controllers/audit/forget.ts';
import { compaction as compacting, compactionPoint } from '../../../controllers/compaction/compaction.ts';
import { keyRotation } from '../../../controllers/key-rotation/key-rotation.ts';
import type { Background } from '../../../controllers/runtime/manager.ts';
import { signingKeyRotation } from '../../../controllers/signing-keys/signing-keys.ts';
import { unavailable } from '../../../store/errors.ts';
import { keys } from '../../../store/keys.ts';
import type { Write } from '../../../store/store.ts';
import { createTenant } from '../../../store/tenants.ts';
import { chained, chainOf, record } from '../../harness/audit.ts';
import { openRig, tenant } from '../runtime/rig.ts';
import type { Rig } from '../runtime/rig.ts';
import { beyond, day, from, hour, minute, second, upTo } from './row.ts';
import type { Rows } from './row.ts';
import { overriding } from './scenes.ts';

/** Whether history goes after a minute in which so many bytes were written, where the store is of that size. */
async function isCompacted(received: number, size: { bytes: number; room: number }): Promise<boolean> {
  let compacted = 0;
  const seen = { received: 0 };
  const background: Background = {
    name: 'compaction',
    run(term, deps) {
      const store = overriding(deps.store, {
        size: () => Promise.resolve(size),
        compact: () => Promise.resolve(void compacted++),
      });
      return compacting.run(term, { ...deps, store, mirror: overriding(deps.mirror, seen) });
    },
  };
  await using rig = await openRig({ background: [background] });
  await rig.rest();
  seen.received = received;
  await rig.clock.advance(minute);
  return compacted === 1;
}

const at = (ms: number, revision: number) => ({ revision, at: ms, received: 0 });
const huge = 1e15;

const compaction: Rows<'compaction'> = {
  everyMs: from(minute, async (n) => {
    await using rig = await openRig({ background: [compacting] });
    await rig.rest();
    let passes = 0;
    const size = rig.store.size.bind(rig.store);
    rig.store.size = () => {
      passes++;
      return size();
    };
    await rig.clock.advance(n);
    return passes === 1;
  }),
  keepRevisions: from(10_000, (n) => compactionPoint([at(0, 1), at(day, 1 + n)], huge) === 1),
  keepMs: from(10 * minute, (n) => compactionPoint([at(0, 1), at(n, huge)], huge) === 1),
  keepBytes: beyond(256 * 1024 * 1024, (n) => isCompacted(n, { bytes: huge, room: huge })),
  keepShare: beyond(0.2, (share) => isCompacted(1e6 * share, { bytes: 4e5, room: 6e5 }), 0.001),
};

/** A tenant whose audit log is kept in order. */
async function withLog<T>(then: (rig: Rig) => Promise<T>): Promise<T> {
  await using rig = await openRig({ background: [chaining({ keepMs: 90 * day, maxRecords: 1 })] });
  await createTenant(rig.store, tenant, rig.clock);
  await rig.rest();
  await rig.clock.advance(10 * second);
  return await then(rig);
}

const recordNow = (rig: Rig, count = 1) => record(rig.store, tenant, count, () => rig.clock.now().getTime());
const lengthOf = async ({ store }: Rig) => (await chainOf(store, tenant)).length;

/** How many transactions it takes to chain these pending records. */
async function transactionsFor(values: readonly string[]): Promise<number> {
  await using rig = await openRig();
  const writes = values.map((value, n): Write => ({ put: keys.auditPending(tenant, `record ${n}`), value }));
  for (let n = 0; n < writes.length; n += 60) await rig.store.txn({ if: [], then: writes.slice(n, n + 60) });
  await rig.rest();
  rig.store.reset();
  await chainPending(rig.store, tenant, [], AbortSignal.timeout(10_000));
  return rig.store.committed;
}

const text = (bytes: number) => 'x'.repeat(bytes);

const audit: Rows<'audit'> = {
  gatherMs: from(second, (n) =>
    withLog(async (rig) => {
      await recordNow(rig);
      await rig.rest();
      await rig.clock.advance(n);
      return (await lengthOf(rig)) === 1;
    }),
  ),
  failureMs: from(5 * second, (n) =>
    withLog(async (rig) => {
      await recordNow(rig);
      await rig.rest();
      const txn = rig.store.txn.bind(rig.store);
      rig.store.txn = () => {
        rig.store.txn = txn;
        return Promise.reject(unavailable('test'));
      };
      await rig.clock.advance(second);
      await rig.clock.advance(n);
      return (await lengthOf(rig)) === 1;
    }),
  ),
  sweepMs: from(5 * minute, (n) =>
    withLog(async (rig) => {
      await recordNow(rig, 3);
      await rig.clock.advance(n - 10 * second);
      return (await lengthOf(rig)) === 1;
    }),
  ),
  pageSize: from(500, async (n) => {
    await using rig = await openRig();
    await recordNow(rig);
    let most = 0;
    const list = rig.store.list.bind(rig.store);
    rig.store.list = (range, options) => {
      if (range.prefix === keys.allAuditPending(tenant).prefix) most = Math.max(most, options?.limit ?? Infinity);
      return list(range, options);
    };
    await chainPending(rig.store, tenant, [], AbortSignal.timeout(10_000));
    return most > 0 && most <= n;
  }),
  atOnce: upTo(5000, async (n) => {
    await using rig = await openRig();
    for (let m = 0; m < n; m += 60)
      await rig.store.txn({
        if: [],
        then: Array.from({ length: Math.min(60, n - m) }, (_, of) => ({
          put: keys.auditPending(tenant, `record ${m + of}`),
          value: '{}',
        })),
      });
    await rig.rest();
    let looks = 0;
    const get = rig.store.get.bind(rig.store);
    rig.store.get = (key) => {
      if (key === keys.auditHead(tenant)) looks++;
      return get(key);
    };
    await chainPending(rig.store, tenant, [], AbortSignal.timeout(10_000));
    return looks === 1;
  }),
  perTransaction: upTo(30, async (n) => (await transactionsFor(Array.from({ length: n }, () => '{}'))) === 1),
  transactionBytes: upTo(
    700 * 1024,
    async (n) => (await transactionsFor([text(Math.floor(n / 2)), text(Math.ceil(n / 2))])) === 1,
  ),
  forgottenPerTransaction: upTo(60, async (n) => {
    await using rig = await openRig();
    await chained(rig.store, tenant, n);
    await rig.rest();
    rig.store.reset();
    const all = { before: Number.MAX_SAFE_INTEGER, maxRecords: n };
    await forgetOld(rig.store, tenant, all, [], AbortSignal.timeout(10_000));
    return rig.store.committed === 1;
  }),
};

/** What the rotation of keys asks of the store: pages of keys, and records that it writes anew. */
async function rotating<T>(
  then: (given: { rig: Rig; passes: () => number; mostAtOnce: () => number; resealed: () => number }) => Promise<T>,
): Promise<T> {
  let [passes, most, resealed] = [0, 0, 0];
  const resealer = {
    seal: () => ({ $sealed: 'new', for: '' }),
    resealRecord(_tenant: string, json: string) {
      if (json.includes('new')) return undefined;
      resealed++;
      return json.replace('old', 'new');
    },
  };
  await using rig = await openRig();
  const sealed = JSON.stringify({ answer: { $sealed: 'old', for: '' } });
  await rig.store.txn({
    if: [],
    then: ['a', 'b'].map((hash) => ({ put: keys.idempotency(tenant, hash), value: sealed })),
  });
  const list = rig.store.list.bind(rig.store);
  rig.store.list = (range, options) => {
    if (options?.after === undefined) passes++;
    most = Math.max(most, options?.limit ?? Infinity);
    return list(range, options);
  };
  await rig.controllers[Symbol.asyncDispose]();
  rig.replica('second', [], [keyRotation(resealer)]);
  await rig.rest();
  await rig.clock.advance(0);
  return await then({ rig, passes: () => passes, mostAtOnce: () => most, resealed: () => resealed });
}

const rotation: Rows<'rotation'> = {
  everyMs: from(10 * minute, (n) =>
    rotating(async ({ rig, passes }) => {
      await rig.clock.advance(40);
      const before = passes();
      await rig.clock.advance(n);
      return passes() === before + 1;
    }),
  ),
  signingKeysEveryMs: from(hour, async (n) => {
    let looks = 0;
    const looking = signingKeyRotation(async () => {
      looks++;
      return 'kept';
    });
    await using rig = await openRig({ background: [looking] });
    await rig.rest();
    await rig.clock.advance(n);
    return looks === 2;
  }),
  pageSize: from(200, (n) => rotating(async ({ mostAtOnce }) => mostAtOnce() > 0 && mostAtOnce() <= n)),
  paceMs: from(20, (n) =>
    rotating(async ({ rig, resealed }) => {
      await rig.clock.advance(n);
      return resealed() === 2;
    }),
  ),
};

export const historyRows = { compaction, audit, rotation };
