import { chainedEntries, parseChained, timeOf } from '../../store/audit/chain.ts';
import type { ChainHead } from '../../store/audit/chain.ts';
import { keys } from '../../store/keys.ts';
import type { Store } from '../../store/store.ts';
import { limits } from '../runtime/limits.ts';
import { readHead } from './chain.ts';
import type { ChainGuards } from './chain.ts';

export interface Retention {
  /** Records from before this time are deleted; milliseconds since 1970. */
  before: number;
  /** Most records: beyond them the oldest are deleted, whatever their age. */
  maxRecords: number;
}

/**
 * Forgets the oldest records of a chain. Each transaction deletes some and moves the anchor behind them, so that the
 * rest can be verified at every moment.
 *
 * @returns how many, and how many of them were not old enough yet; `undefined` if another process chains.
 */
export async function forgetOld(
  store: Pick<Store, 'get' | 'list' | 'txn'>,
  tenant: string,
  retention: Retention,
  guards: ChainGuards,
  signal: AbortSignal,
): Promise<{ forgotten: number; early: number } | undefined> {
  let forgotten = 0;
  let early = 0;
  for (;;) {
    signal.throwIfAborted();
    const { head, guard, mended } = await readHead(store, tenant);
    // nothing of a chain that was tampered with is deleted, until it is continued and has an anchor again
    if (mended) return { forgotten, early };
    const part = await oldest(store, tenant, head, retention);
    if (part === undefined) return { forgotten, early };
    const next: ChainHead = { ...head, anchor: { seq: part.to, hash: part.hash ?? head.anchor.hash } };
    const result = await store.txn({
      if: [...guards, guard],
      then: [{ put: guard.key, value: JSON.stringify(next) }, ...part.keys.map((key) => ({ delete: key }))],
    });
    if (!result.committed) return undefined;
    forgotten += part.keys.length;
    early += part.early;
  }
}

interface Part {
  /** Last number of the part. */
  to: number;
  /** Hash of the last record that can be read: if a later one was tampered with, the verifier finds it. */
  hash: string | undefined;
  keys: string[];
  early: number;
}

/** The oldest records that may go, as many as fit into a transaction; `undefined` if none may. */
async function oldest(
  store: Pick<Store, 'list'>,
  tenant: string,
  { seq: last, anchor }: ChainHead,
  { before, maxRecords }: Retention,
): Promise<Part | undefined> {
  const from = anchor.seq + 1;
  const surplus = last - anchor.seq - maxRecords;
  const to = Math.min(last, anchor.seq + limits.audit.forgottenPerTransaction);
  const entries = await chainedEntries(store, tenant, { from, to });
  const part: Part = { to: anchor.seq, hash: undefined, keys: [], early: 0 };
  for (let seq = from; seq <= to; seq += 1) {
    const entry = entries.get(seq);
    const chained = entry && parseChained(entry.value);
    const isSurplus = seq - anchor.seq <= surplus;
    // a missing record is dropped with an old one after it; until then the verifier can report it
    if (chained === undefined && !isSurplus) continue;
    // a record without a time counts as old
    const isOld = chained === undefined || !(timeOf(chained) >= before);
    if (!isOld && !isSurplus) break;
    while (part.to < seq) part.keys.push(keys.auditChained(tenant, (part.to += 1)));
    part.hash = chained?.hash ?? part.hash;
    if (!isOld) part.early += 1;
  }
  return part.keys.length === 0 ? undefined : part;
}
