import { chainPending } from '../../controllers/audit/chain.ts';
import type { ChainedRecord } from '../../store/audit/chain.ts';
import { parseChained } from '../../store/audit/chain.ts';
import type { AuditRecord } from '../../store/audit/record.ts';
import { auditWrite } from '../../store/audit/record.ts';
import { keys } from '../../store/keys.ts';
import type { Store } from '../../store/store.ts';

/** A record of a change, at that many milliseconds since 1970. */
export function aRecord(tenant: string, at = Date.now(), changes: Partial<AuditRecord> = {}): AuditRecord {
  return {
    v: 1,
    at: new Date(at).toISOString(),
    route: 'PUT /applications/:id',
    result: 'ok',
    tenant,
    objects: [{ kind: 'application', id: 'a', action: 'change', fields: ['replicas'] }],
    ...changes,
  };
}

/** Commits that many records, each in a transaction of its own; `at` says the time of each. */
export async function record(
  store: Store,
  tenant: string,
  count: number,
  at: (n: number) => number = () => Date.now(),
): Promise<void> {
  for (let n = 1; n <= count; n += 1) {
    const write = auditWrite(aRecord(tenant, at(n), { request_id: `request-${n}` }), crypto.randomUUID());
    await store.txn({ if: [], then: [write] });
  }
}

/** Commits that many records and chains them. */
export async function chained(store: Store, tenant: string, count: number): Promise<void> {
  await record(store, tenant, count);
  await chainPending(store, tenant, [], AbortSignal.timeout(10_000));
}

/** All of the chain as it lies in the store, the oldest first. */
export async function chainOf(store: Store, tenant: string): Promise<ChainedRecord[]> {
  const found: ChainedRecord[] = [];
  for (let after: string | undefined; ;) {
    const page = await store.list(keys.allAuditChained(tenant), { ...(after !== undefined && { after }) });
    found.push(...page.entries.map(({ value }) => parseChained(value)!));
    if (page.next === undefined) return found.toReversed();
    after = page.next;
  }
}

/** How many records wait to be chained. */
export async function pendingOf(store: Store, tenant: string): Promise<number> {
  return (await store.list(keys.allAuditPending(tenant))).entries.length;
}
