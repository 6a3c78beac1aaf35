import { setImmediate as turn } from 'node:timers/promises';
import { keys } from '../keys.ts';
import type { Store } from '../store.ts';
import { chainedEntries, genesis, linkHash, newestChained, parseChained, parseHead, seqOfKey } from './chain.ts';
import type { ChainHead, Link } from './chain.ts';

/** What a walk along a chain has found. */
export type Verification =
  | {
      ok: true;
      /** Records that are kept and chained. */
      count: number;
      head: Link;
      /** What the oldest record that is kept continues. */
      anchor: Link;
    }
  | { ok: false; count: number; broken: { seq: number; reason: string } };

/** Records that are read at once; the event loop gets a turn after each page. */
const pageSize = 200;

/**
 * Walks the whole chain from its anchor to its head, at one revision, and stops at the first link that does not hold.
 * `known`: a link that was noted elsewhere before. It must still be part of the chain unless it was forgotten, so that
 * even a chain that was rewritten as a whole is detected. Read-only.
 */
export async function verifyChain(
  store: Pick<Store, 'get' | 'list'>,
  tenant: string,
  signal: AbortSignal,
  known?: Link,
): Promise<Verification> {
  const { entry: newest, revision: at } = await newestChained(store, tenant);
  const page = await store.list({ prefix: keys.auditHead(tenant) }, { limit: 1, at });
  const text = page.entries[0]?.value;
  const top = newest === undefined ? undefined : seqOfKey(newest.key);
  const head = text === undefined ? undefined : parseHead(text);
  if (head === undefined) {
    if (text === undefined && newest === undefined && known === undefined)
      return { ok: true, count: 0, head: genesis, anchor: genesis };
    return broken(0, top ?? 0, 'The head of the chain is missing or cannot be read');
  }
  const walked = await walk(store, tenant, head, at, signal, known);
  if (!walked.ok) return walked;
  if (top !== undefined && !(top <= head.seq))
    return broken(walked.count, head.seq + 1, `The head ends the chain at ${head.seq}, but there are records above it`);
  const below = await store.list(keys.allAuditChained(tenant), {
    after: keys.auditChained(tenant, head.anchor.seq + 1),
    limit: 1,
    at,
  });
  if (below.entries.length > 0)
    return broken(walked.count, head.anchor.seq, `There are records that do not belong to the chain`);
  return walked;
}

async function walk(
  store: Pick<Store, 'list'>,
  tenant: string,
  head: ChainHead,
  at: Parameters<typeof chainedEntries>[3],
  signal: AbortSignal,
  known: Link | undefined,
): Promise<Verification> {
  let last: Link = head.anchor;
  let count = 0;
  if (known !== undefined && known.seq > head.seq)
    return broken(0, known.seq, `The chain ends before a record that was there: ${known.seq}`);
  if (known?.seq === last.seq && known.hash !== last.hash) return broken(0, known.seq, rewritten);
  while (last.seq < head.seq) {
    signal.throwIfAborted();
    const from = last.seq + 1;
    const to = Math.min(head.seq, last.seq + pageSize);
    const entries = await chainedEntries(store, tenant, { from, to }, at);
    for (let seq = from; seq <= to; seq += 1) {
      const entry = entries.get(seq);
      if (entry === undefined) return broken(count, seq, 'The record is missing');
      const chained = parseChained(entry.value);
      if (chained === undefined) return broken(count, seq, 'The record cannot be read');
      if (chained.seq !== seq)
        return broken(count, seq, `The record stands in the place of another: it is ${chained.seq}`);
      if (chained.hash !== linkHash(chained)) return broken(count, seq, 'The record was changed');
      if (chained.prev !== last.hash) return broken(count, seq, 'The record does not continue the one before it');
      if (known?.seq === seq && known.hash !== chained.hash) return broken(count, seq, rewritten);
      last = { seq, hash: chained.hash };
      count += 1;
    }
    await turn();
  }
  if (last.hash !== head.hash) return broken(count, head.seq, 'The head does not name the last record');
  return { ok: true, count, head: { seq: head.seq, hash: head.hash }, anchor: head.anchor };
}

const rewritten = 'The record is not the one that was noted';

function broken(count: number, seq: number, reason: string): Verification {
  return { ok: false, count, broken: { seq, reason } };
}
