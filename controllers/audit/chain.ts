import { genesis, linkHash, newestChained, parseChained, parseHead, seqOfKey } from '../../store/audit/chain.ts';
import type { ChainedRecord, ChainHead, Link } from '../../store/audit/chain.ts';
import { keys } from '../../store/keys.ts';
import type { Revision } from '../../store/revision.ts';
import type { Entry, Guard, Store, Write } from '../../store/store.ts';
import { limits } from '../runtime/limits.ts';

/** The head as it was read, with the guard that it has not changed. */
export interface HeadState {
  head: ChainHead;
  guard: Guard;
  /** The head did not fit the chain, so that the chain begins anew after the existing records. */
  mended: boolean;
}

/** Guards of the transactions of one tenant's chain: the leader's fence, and that the tenant exists. */
export type ChainGuards = readonly Guard[];

/**
 * Reads where the chain ends. A head that is missing or below the newest record was tampered with: the chain then goes
 * on after that record, with an anchor there. Nothing is overwritten; the verifier reports the records outside of it.
 */
export async function readHead(store: Pick<Store, 'get' | 'list'>, tenant: string): Promise<HeadState> {
  const key = keys.auditHead(tenant);
  const stored = await store.get(key);
  const { entry: newest } = await newestChained(store, tenant);
  const guard: Guard = stored === undefined ? { key, is: 'absent' } : { key, is: 'at', revision: stored.modRevision };
  const head = stored && parseHead(stored.value);
  const top = newest === undefined ? genesis.seq : seqOfKey(newest.key);
  // records that are missing below the head stay missing, for the verifier to find
  if (head !== undefined && !(top > head.seq)) return { head, guard, mended: false };
  if (Number.isNaN(top))
    throw new Error(`Cannot chain audit records as the key of the newest one has no number: ${newest?.key ?? ''}`);
  if (stored === undefined && newest === undefined)
    return { head: { v: 1, ...genesis, anchor: genesis }, guard, mended: false };
  const hash = (newest && parseChained(newest.value)?.hash) ?? genesis.hash;
  return { head: { v: 1, seq: top, hash, anchor: { seq: top, hash } }, guard, mended: true };
}

/**
 * Moves the pending records into the chain, in the order of their commits. Each transaction removes some pending
 * records, puts them into the chain and moves the head, which it guards. So no other process can have moved a pending
 * record meanwhile, and a process that crashes between two transactions has moved each record exactly once.
 *
 * @returns how many, and whether the head had to be mended; `undefined` if another process chains.
 */
export async function chainPending(
  store: Pick<Store, 'get' | 'list' | 'txn'>,
  tenant: string,
  guards: ChainGuards,
  signal: AbortSignal,
): Promise<{ chained: number; mended: boolean } | undefined> {
  let chained = 0;
  let anyMended = false;
  for (;;) {
    // read before the pending records are listed: otherwise the list could hold one that another process has moved
    let { head, guard, mended } = await readHead(store, tenant);
    anyMended ||= mended;
    const { pending, more } = await oldestPending(store, tenant);
    for (const batch of batches(pending)) {
      signal.throwIfAborted();
      const next = append(head, batch);
      const moves = batch.flatMap((entry, at): Write[] => [
        { put: keys.auditChained(tenant, next.links[at]?.seq ?? 0), value: JSON.stringify(next.links[at]) },
        { delete: entry.key },
      ]);
      const put: Write = { put: guard.key, value: JSON.stringify(next.head) };
      const result = await store.txn({ if: [...guards, guard], then: [put, ...moves] });
      if (!result.committed) return undefined;
      ({ head } = next);
      guard = { key: guard.key, is: 'at', revision: result.revision };
      chained += batch.length;
    }
    if (!more) return { chained, mended: anyMended };
  }
}

/** The pending records with the lowest revisions, in their order: the keys follow it only roughly. */
async function oldestPending(store: Pick<Store, 'list'>, tenant: string): Promise<{ pending: Entry[]; more: boolean }> {
  const { pageSize, atOnce } = limits.audit;
  let pending: Entry[] = [];
  let more = false;
  let at: Revision | undefined;
  let after: string | undefined;
  do {
    const page = await store.list(keys.allAuditPending(tenant), {
      limit: pageSize,
      ...(after !== undefined && { after }),
      ...(at !== undefined && { at }),
    });
    at = page.revision;
    after = page.next;
    pending.push(...page.entries);
    if (pending.length <= atOnce) continue;
    more = true;
    pending = pending.sort(byCommit).slice(0, atOnce);
  } while (after !== undefined);
  return { pending: pending.sort(byCommit), more };
}

function byCommit(a: Entry, b: Entry): number {
  return a.modRevision - b.modRevision || (a.key < b.key ? -1 : 1);
}

function* batches(entries: readonly Entry[]): Generator<Entry[]> {
  let batch: Entry[] = [];
  let bytes = 0;
  for (const entry of entries) {
    const size = Buffer.byteLength(entry.value);
    if (batch.length === limits.audit.perTransaction || bytes + size > limits.audit.transactionBytes) {
      if (batch.length > 0) yield batch;
      batch = [];
      bytes = 0;
    }
    batch.push(entry);
    bytes += size;
  }
  if (batch.length > 0) yield batch;
}

function append(head: ChainHead, entries: readonly Entry[]): { head: ChainHead; links: ChainedRecord[] } {
  let last: Link = head;
  const links = entries.map(({ value, modRevision }) => {
    const link = { seq: last.seq + 1, prev: last.hash, revision: modRevision, record: recordOf(value) };
    const chained: ChainedRecord = { v: 1, ...link, hash: linkHash(link) };
    last = chained;
    return chained;
  });
  return { head: { v: 1, seq: last.seq, hash: last.hash, anchor: head.anchor }, links };
}

/** A text that is no JSON object was not written by this product: it is kept as text, so that chaining goes on. */
function recordOf(text: string): ChainedRecord['record'] {
  try {
    const value: unknown = JSON.parse(text);
    if (typeof value === 'object' && value !== null && !Array.isArray(value)) return { ...value };
  } catch {
    // as below
  }
  return { unreadable: text.slice(0, 1000) };
}
