import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { chainPending } from '../../controllers/audit/chain.ts';
import { forgetOld } from '../../controllers/audit/forget.ts';
import { linkHash } from '../../store/audit/chain.ts';
import type { ChainedRecord } from '../../store/audit/chain.ts';
import { verifyChain } from '../../store/audit/verify.ts';
import { isUnavailable } from '../../store/errors.ts';
import { keys } from '../../store/keys.ts';
import type { Store } from '../../store/store.ts';
import { chained, chainOf, pendingOf, record } from '../harness/audit.ts';
import { FaultyStore } from '../harness/faulty-store.ts';
import type { Fault } from '../harness/faulty-store.ts';
import { backends } from './store-backends.ts';

const soon = (): AbortSignal => AbortSignal.timeout(20_000);
const chain = (store: Store, tenant: string) => chainPending(store, tenant, [], soon());

describe.each(backends.filter(({ name }) => name !== 'SQLite in memory'))(
  'the chain of the audit log on $name',
  (backend) => {
    beforeAll(() => backend.start());
    afterAll(() => backend.stop());
    let tenants = 0;

    async function world(): Promise<{ store: Store; tenant: string } & AsyncDisposable> {
      const rig = await backend.rig();
      return {
        store: rig.store,
        tenant: `t${(tenants += 1)}`,
        [Symbol.asyncDispose]: () => rig[Symbol.asyncDispose](),
      };
    }

    const put = (store: Store, key: string, value: unknown) =>
      store.txn({ if: [], then: [{ put: key, value: JSON.stringify(value) }] });
    const verify = (store: Store, tenant: string) => verifyChain(store, tenant, soon());

    it('holds nothing, and verifies, before there is a record', async () => {
      await using at = await world();
      expect(await chain(at.store, at.tenant)).toEqual({ chained: 0, mended: false });
      expect(await verify(at.store, at.tenant)).toMatchObject({ ok: true, count: 0, head: { seq: 0 } });
      expect((await at.store.list({ prefix: keys.ofTenant(at.tenant).prefix })).entries).toEqual([]);
    });

    it('takes every record in the order of the commits, whatever the clocks of the replicas say', async () => {
      await using at = await world();
      // each later record says an earlier time
      await record(at.store, at.tenant, 70, (n) => 1_000_000_000_000 - n * 1000);
      expect(await chain(at.store, at.tenant)).toEqual({ chained: 70, mended: false });
      const links = await chainOf(at.store, at.tenant);
      expect(links.map(({ record: it }) => it['request_id'])).toEqual(
        Array.from({ length: 70 }, (_, n) => `request-${n + 1}`),
      );
      expect(links.map(({ seq }) => seq)).toEqual(Array.from({ length: 70 }, (_, n) => n + 1));
      expect(links.map(({ revision }) => revision)).toEqual(
        links.map(({ revision }) => revision).toSorted((a, b) => a - b),
      );
      expect(await pendingOf(at.store, at.tenant)).toBe(0);
      expect(await verify(at.store, at.tenant)).toMatchObject({
        ok: true,
        count: 70,
        head: { seq: 70, hash: links.at(-1)?.hash },
        anchor: { seq: 0 },
      });
    });

    it('is written by one: who was overtaken writes nothing', async () => {
      await using at = await world();
      await record(at.store, at.tenant, 40);
      const overtaken = new FaultyStore(at.store).at(1, async () => void (await chain(at.store, at.tenant)));
      expect(await chain(overtaken, at.tenant)).toBeUndefined();
      expect(await chainOf(at.store, at.tenant)).toHaveLength(40);
      expect(await verify(at.store, at.tenant)).toMatchObject({ ok: true, count: 40 });
    });

    it('is not written by a leader that was deposed', async () => {
      await using at = await world();
      await record(at.store, at.tenant, 3);
      const fence = { key: keys.leader(`of-${at.tenant}`), is: 'present' } as const;
      expect(await chainPending(at.store, at.tenant, [fence], soon())).toBeUndefined();
      expect(await chainOf(at.store, at.tenant)).toEqual([]);
      expect(await pendingOf(at.store, at.tenant)).toBe(3);
    });

    it.each(['fail-before-commit', 'lose-answer'] as const satisfies Fault[])(
      'has no gap and nothing twice, whichever of its writes meets: %s',
      async (fault) => {
        for (const k of [1, 2, 3]) {
          await using at = await world();
          await record(at.store, at.tenant, 75);
          const faulty = new FaultyStore(at.store).at(k, fault);
          const error: unknown = await chain(faulty, at.tenant).catch((it: unknown) => it);
          expect(isUnavailable(error)).toBe(true);
          expect(await verify(at.store, at.tenant)).toMatchObject({ ok: true });
          await record(at.store, at.tenant, 5);
          await chain(at.store, at.tenant);
          const links = await chainOf(at.store, at.tenant);
          expect(new Set(links.map(({ revision }) => revision)).size).toBe(80);
          expect(await verify(at.store, at.tenant)).toMatchObject({ ok: true, count: 80, head: { seq: 80 } });
        }
      },
    );

    it('forgets the oldest by their age and by their number, and verifies at every moment', async () => {
      await using at = await world();
      await record(at.store, at.tenant, 200, (n) => n * 1000);
      await chain(at.store, at.tenant);
      const verified: unknown[] = [];
      const watching = new FaultyStore(at.store);
      for (const k of [1, 2, 3, 4, 5])
        watching.at(k, async () => void verified.push(await verify(at.store, at.tenant)));
      const old = { before: 100_000, maxRecords: 1000 };
      expect(await forgetOld(watching, at.tenant, old, [], soon())).toEqual({ forgotten: 99, early: 0 });
      const many = { before: 0, maxRecords: 40 };
      expect(await forgetOld(watching, at.tenant, many, [], soon())).toEqual({ forgotten: 61, early: 61 });
      expect(await forgetOld(watching, at.tenant, many, [], soon())).toEqual({ forgotten: 0, early: 0 });
      expect(verified).toMatchObject([140, 101, 41, 40].map((count) => ({ ok: true, count })));
      expect(await verify(at.store, at.tenant)).toMatchObject({ ok: true, anchor: { seq: 160 }, head: { seq: 200 } });
      await chained(at.store, at.tenant, 3);
      expect(
        await forgetOld(at.store, at.tenant, { before: Date.now() + 1000, maxRecords: 1 }, [], soon()),
      ).toMatchObject({
        forgotten: 43,
      });
      await chained(at.store, at.tenant, 2);
      expect(await verify(at.store, at.tenant)).toMatchObject({ ok: true, count: 2, anchor: { seq: 203 } });
    });

    describe('reports where it was tampered with', () => {
      async function tampered(
        tamper: (store: Store, tenant: string, links: ChainedRecord[]) => Promise<unknown>,
        check: (store: Store, tenant: string) => Promise<unknown>,
      ): Promise<void> {
        await using at = await world();
        await chained(at.store, at.tenant, 50);
        await tamper(at.store, at.tenant, await chainOf(at.store, at.tenant));
        await check(at.store, at.tenant);
      }
      const isBroken = (seq: number, reason: string) => async (store: Store, tenant: string) =>
        expect(await verify(store, tenant)).toMatchObject({
          ok: false,
          broken: { seq, reason: expect.stringContaining(reason) },
        });
      const keyOf = keys.auditChained;

      it('finds a record that was changed', () =>
        tampered(
          (store, tenant, links) =>
            put(store, keyOf(tenant, 20), { ...links[19], record: { ...links[19]!.record, user: { id: 'x' } } }),
          isBroken(20, 'was changed'),
        ));

      it('finds a record that was changed together with its hash', () =>
        tampered(
          (store, tenant, links) => {
            const forged = { ...links[19]!, record: { ...links[19]!.record, result: 'refused' } };
            return put(store, keyOf(tenant, 20), { ...forged, hash: linkHash(forged) });
          },
          isBroken(21, 'does not continue'),
        ));

      it('finds a record that was removed', () =>
        tampered(
          (store, tenant) => store.txn({ if: [], then: [{ delete: keyOf(tenant, 31) }] }),
          isBroken(31, 'missing'),
        ));

      it('finds two that were swapped', () =>
        tampered(
          async (store, tenant, links) => {
            await put(store, keyOf(tenant, 10), links[11]);
            await put(store, keyOf(tenant, 12), links[9]);
          },
          isBroken(10, 'in the place of another'),
        ));

      it('finds that the newest were cut off', () =>
        tampered(
          (store, tenant) =>
            store.txn({ if: [], then: [{ delete: keyOf(tenant, 50) }, { delete: keyOf(tenant, 49) }] }),
          isBroken(49, 'missing'),
        ));

      it('finds a head that was set back, also after more was chained', () =>
        tampered(
          (store, tenant, links) =>
            put(store, keys.auditHead(tenant), {
              v: 1,
              seq: 40,
              hash: links[39]!.hash,
              anchor: { seq: 0, hash: '0'.repeat(64) },
            }),
          async (store, tenant) => {
            await isBroken(41, 'above it')(store, tenant);
            await record(store, tenant, 5);
            expect(await chain(store, tenant)).toEqual({ chained: 5, mended: true });
            expect(await chainOf(store, tenant)).toHaveLength(55);
            await isBroken(50, 'do not belong')(store, tenant);
          },
        ));

      it('finds a head that is gone, and overwrites nothing', () =>
        tampered(
          (store, tenant) => store.txn({ if: [], then: [{ delete: keys.auditHead(tenant) }] }),
          async (store, tenant) => {
            await isBroken(50, 'missing')(store, tenant);
            await record(store, tenant, 1);
            await chain(store, tenant);
            expect(await chainOf(store, tenant)).toHaveLength(51);
            await isBroken(50, 'do not belong')(store, tenant);
          },
        ));

      it('finds a chain that was written anew, by a link that was noted before', async () => {
        await using at = await world();
        await chained(at.store, at.tenant, 10);
        const noted = await verifyChain(at.store, at.tenant, soon());
        if (!noted.ok) throw new Error('The chain must be good');
        await chained(at.store, at.tenant, 3);
        expect(await verifyChain(at.store, at.tenant, soon(), noted.head)).toMatchObject({ ok: true, count: 13 });
        for (const { key } of (await at.store.list({ prefix: `${keys.ofTenant(at.tenant).prefix}a/` })).entries)
          await at.store.txn({ if: [], then: [{ delete: key }] });
        expect(await verifyChain(at.store, at.tenant, soon(), noted.head)).toMatchObject({ ok: false });
        await chained(at.store, at.tenant, 13);
        expect(await verifyChain(at.store, at.tenant, soon())).toMatchObject({ ok: true, count: 13 });
        expect(await verifyChain(at.store, at.tenant, soon(), noted.head)).toMatchObject({
          ok: false,
          broken: { seq: 10 },
        });
      });
    });

    it('takes in what is no record as what it is, and goes on', async () => {
      await using at = await world();
      await at.store.txn({ if: [], then: [{ put: keys.auditPending(at.tenant, '0-x'), value: 'not a record' }] });
      await chained(at.store, at.tenant, 2);
      expect((await chainOf(at.store, at.tenant)).map(({ record: it }) => it['unreadable'])).toEqual([
        'not a record',
        undefined,
        undefined,
      ]);
      expect(await verify(at.store, at.tenant)).toMatchObject({ ok: true, count: 3 });
    });
  },
);
