import { createHash } from 'node:crypto';
import { z } from 'zod';
import { canonicalJson } from '../canonical-json.ts';
import { keys } from '../keys.ts';
import type { Revision } from '../revision.ts';
import type { Entry, Page, Store } from '../store.ts';

/**
 * The chain of a tenant's audit records.
 *
 * 1. Sequence numbers begin with 1 and have no gap; their order is that of the commits.
 * 2. Each record carries the hash of the one before it, and a hash over that, its number, its revision and its content.
 * 3. The head holds the last number and hash, and the anchor: number and hash of the last record that was forgotten. So
 *    the oldest record that is kept continues the anchor, and the newest one is the head's.
 */
const Link = z.object({ seq: z.int().min(0), hash: z.string() });
export type Link = z.infer<typeof Link>;

export const ChainHead = Link.extend({ v: z.literal(1), anchor: Link });
export type ChainHead = z.infer<typeof ChainHead>;

export const ChainedRecord = z.object({
  v: z.literal(1),
  seq: z.int().min(1),
  prev: z.string(),
  hash: z.string(),
  /** Revision of the transaction that wrote the record. */
  revision: z.int(),
  /** The record as it was written, also by another version. */
  record: z.record(z.string(), z.unknown()),
});
export type ChainedRecord = z.infer<typeof ChainedRecord>;

/** What the first record of a chain continues. */
export const genesis: Link = { seq: 0, hash: '0'.repeat(64) };

export function linkHash({ seq, prev, revision, record }: Omit<ChainedRecord, 'v' | 'hash'>): string {
  return createHash('sha256').update(canonicalJson({ seq, prev, revision, record })).digest('hex');
}

/** Parses a chained record; `undefined` for any other text. */
export function parseChained(text: string): ChainedRecord | undefined {
  return parse(ChainedRecord, text);
}

/** Time of the recorded event in milliseconds since 1970; `NaN` if there is no record or it has no time. */
export function timeOf(chained: ChainedRecord | undefined): number {
  const at = chained?.record['at'];
  return typeof at === 'string' ? Date.parse(at) : Number.NaN;
}

/** Parses the head of a chain; `undefined` for any other text. */
export function parseHead(text: string): ChainHead | undefined {
  return parse(ChainHead, text);
}

function parse<T>(schema: z.ZodType<T>, text: string): T | undefined {
  try {
    return schema.safeParse(JSON.parse(text)).data;
  } catch {
    return undefined;
  }
}

/** Entries of the numbers `from` to `to`, both included, by number; missing ones are left out. */
export async function chainedEntries(
  store: Pick<Store, 'list'>,
  tenant: string,
  { from, to }: { from: number; to: number },
  at?: Revision,
): Promise<Map<number, Entry>> {
  const found = new Map<number, Entry>();
  if (to < from) return found;
  const wanted = new Map<string, number>();
  for (let seq = from; seq <= to; seq += 1) wanted.set(keys.auditChained(tenant, seq), seq);
  const page = await store.list(keys.allAuditChained(tenant), {
    after: keys.auditChained(tenant, to + 1),
    limit: to - from + 1,
    ...(at !== undefined && { at }),
  });
  for (const entry of page.entries) {
    const seq = wanted.get(entry.key);
    if (seq !== undefined) found.set(seq, entry);
  }
  return found;
}

/** The newest chained record, whatever the head names. */
export async function newestChained(
  store: Pick<Store, 'list'>,
  tenant: string,
  at?: Revision,
): Promise<{ entry: Entry | undefined; revision: Page['revision'] }> {
  const page = await store.list(keys.allAuditChained(tenant), { limit: 1, ...(at !== undefined && { at }) });
  return { entry: page.entries[0], revision: page.revision };
}

/** The number that a key of the chain stands for; `NaN` for any other key. */
export function seqOfKey(key: string): number {
  const digits = key.slice(key.lastIndexOf('/') + 1);
  return /^\d{16}$/.test(digits) ? Number.MAX_SAFE_INTEGER - Number(digits) : Number.NaN;
}
