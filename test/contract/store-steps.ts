import { revision } from '../../store/revision.ts';
import type { Revision } from '../../store/revision.ts';
import type { Batch, Change, KeyRange, Store, TxnResult, Write } from '../../store/store.ts';

/** Commits unguarded writes. @returns their revision. */
export async function write(store: Store, ...writes: Write[]): Promise<Revision> {
  const result = await store.txn({ if: [], then: writes });
  return result.revision;
}

export function put(store: Store, key: string, value: string): Promise<Revision> {
  return write(store, { put: key, value });
}

/** The revision of a result that must have committed. */
export function committed(result: TxnResult): Revision {
  if (!result.committed) throw new Error(`Not committed: ${JSON.stringify(result.failed)}`);
  return result.revision;
}

export function after(at: Revision, count = 1): Revision {
  return revision(at + count);
}

/** Batches of a watch until one reaches `to`; progress counts. */
export async function batchesUpTo(store: Store, range: KeyRange, from: Revision, to: Revision): Promise<Batch[]> {
  const batches: Batch[] = [];
  const stop = new AbortController();
  for await (const batch of store.watch(range, from, stop.signal)) {
    batches.push(batch);
    if (batch.revision >= to) break;
  }
  return batches;
}

/** Changes from `from` up to and including revision `to`, which must be one of the range's. */
export async function changesUpTo(store: Store, range: KeyRange, from: Revision, to: Revision): Promise<Change[]> {
  return (await batchesUpTo(store, range, from, to)).flatMap((batch) => batch.events);
}

/** The error that a promise rejects with. */
export async function failureOf(promise: Promise<unknown>): Promise<unknown> {
  try {
    await promise;
  } catch (error) {
    return error;
  }
  throw new Error('Expected a rejection');
}

/** The first batch of a watch, or its error. */
export async function firstOf(store: Store, range: KeyRange, from: Revision): Promise<Batch> {
  for await (const batch of store.watch(range, from, new AbortController().signal)) return batch;
  throw new Error('The watch ended without its signal');
}

/** Writes `count` keys under `prefix`, one revision each, some of them at a time. @returns the last revision. */
export async function fill(store: Store, prefix: string, count: number, value = 'v'): Promise<Revision> {
  let last = 0;
  let next = 0;
  const worker = async (): Promise<void> => {
    while (next < count) {
      const at = await put(store, `${prefix}${String(next++).padStart(6, '0')}`, value);
      last = Math.max(last, at);
    }
  };
  await Promise.all(Array.from({ length: 64 }, worker));
  return revision(last);
}
