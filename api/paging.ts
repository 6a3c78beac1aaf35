import { z } from 'zod';
import type { TenantView } from '../store/mirror.ts';
import type { KindName } from '../store/kinds/kinds.ts';
import type { ReadonlyResource } from '../store/resource.ts';
import { badField } from './api-error.ts';
import { matchesLabels, parseLabelSelector } from './label-selector.ts';

/** Beside `data` in the answer of a list. */
export interface ListMeta {
  next_cursor: string | null;
  limit: number;
  /** Items that match, on all pages; `null` where they are not counted. */
  total: number | null;
  /** Of notifications: how many one has not read, whatever the query. */
  unread?: number;
}

/** Query of every list. */
export const PageQuery = z.object({
  limit: z.coerce.number().int().min(1).max(500).default(100),
  cursor: z.string().max(1000).optional(),
  sort: z.string().max(50).optional(),
  q: z.string().max(200).optional(),
  status: z.string().max(50).optional(),
  labelSelector: z.string().max(500).optional(),
});
export type PageQuery = z.infer<typeof PageQuery>;

type SortValue = string | number;

/** How objects of a kind are searched and sorted. Only what is not secret may be sorted by. */
export interface Listing<K extends KindName> {
  /** Texts that `q` looks in. */
  texts(it: ReadonlyResource<K>): readonly (string | undefined)[];
  status?(it: ReadonlyResource<K>, view: TenantView): string;
  sorts?: Readonly<Record<string, (it: ReadonlyResource<K>) => SortValue>>;
}

const commonSorts: Readonly<Record<string, (it: ReadonlyResource) => SortValue>> = {
  // of what was created in one millisecond, the revision tells the order
  created_at: ({ meta }) => `${meta.createdAt} ${String(meta.createdRevision ?? 0).padStart(16, '0')}`,
  updated_at: (it) => it.meta.updatedAt,
};

const Cursor = z.tuple([z.string(), z.union([z.string(), z.number()]), z.string()]);

/**
 * One page of `candidates`, newest first unless `sort` says otherwise; equal times of creation are ordered by revision,
 * other equal values by id. A cursor names
 * the last item of the page before it, so that a page neither repeats nor skips what stayed in its place.
 *
 * @throws ApiError BAD_REQUEST for a sort or cursor that is not one of this list.
 */
export function pageOf<K extends KindName>(
  candidates: readonly ReadonlyResource<K>[],
  query: PageQuery,
  listing: Listing<NoInfer<K>>,
  view: TenantView,
): { items: readonly ReadonlyResource<K>[]; meta: ListMeta } {
  const matching = filtered(candidates, query, listing, view);
  const sort = query.sort ?? '-created_at';
  const descending = sort.startsWith('-');
  const valueOf = sorterOf(descending ? sort.slice(1) : sort, listing);
  const direction = descending ? -1 : 1;
  const compare = (a: readonly [SortValue, string], b: readonly [SortValue, string]): number =>
    direction * (order(a[0], b[0]) || order(a[1], b[1]));
  const keyed = matching.map((it) => ({ it, key: [valueOf(it), it.meta.id] as const }));
  keyed.sort((a, b) => compare(a.key, b.key));
  const after = query.cursor === undefined ? undefined : parseCursor(query.cursor, sort);
  const start = after === undefined ? 0 : firstAfter(keyed, (key) => compare(key, after) > 0);
  const page = keyed.slice(start, start + query.limit);
  const last = page.at(-1);
  const more = last !== undefined && start + page.length < keyed.length;
  return {
    items: page.map(({ it }) => it),
    meta: {
      next_cursor: more ? encodeCursor([sort, ...last.key]) : null,
      limit: query.limit,
      total: matching.length,
    },
  };
}

function filtered<K extends KindName>(
  candidates: readonly ReadonlyResource<K>[],
  query: PageQuery,
  listing: Listing<K>,
  view: TenantView,
): readonly ReadonlyResource<K>[] {
  const wanted = query.q?.toLowerCase();
  const { status } = query;
  const labels = query.labelSelector === undefined ? [] : parseLabelSelector(query.labelSelector);
  if (wanted === undefined && status === undefined && labels.length === 0) return candidates;
  return candidates.filter(
    (it) =>
      (wanted === undefined || listing.texts(it).some((text) => text?.toLowerCase().includes(wanted))) &&
      (status === undefined || listing.status?.(it, view) === status) &&
      matchesLabels(it.meta.labels, labels),
  );
}

function sorterOf<K extends KindName>(field: string, listing: Listing<K>): (it: ReadonlyResource<K>) => SortValue {
  const sorts: Readonly<Record<string, (it: ReadonlyResource<K>) => SortValue>> = {
    ...(commonSorts as Record<string, (it: ReadonlyResource<K>) => SortValue>), // they look at the meta alone
    ...listing.sorts,
  };
  const found = Object.hasOwn(sorts, field) ? sorts[field] : undefined;
  if (found === undefined)
    throw badField('sort', 'unknown', `Cannot sort by ${field}: possible are ${Object.keys(sorts).join(', ')}`);
  return found;
}

function order(a: SortValue, b: SortValue): number {
  return a < b ? -1 : a > b ? 1 : 0;
}

function firstAfter<T>(sorted: readonly { key: T }[], isAfter: (key: T) => boolean): number {
  let low = 0;
  let high = sorted.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    const at = sorted[middle];
    if (at !== undefined && isAfter(at.key)) high = middle;
    else low = middle + 1;
  }
  return low;
}

function encodeCursor(cursor: readonly [string, SortValue, string]): string {
  return Buffer.from(JSON.stringify(cursor)).toString('base64url');
}

function parseCursor(text: string, sort: string): readonly [SortValue, string] {
  const wrong = badField('cursor', 'invalid', 'Cursor is not one of this list, or expired');
  let value: unknown;
  try {
    value = JSON.parse(Buffer.from(text, 'base64url').toString('utf8'));
  } catch {
    throw wrong;
  }
  const cursor = Cursor.safeParse(value);
  if (!cursor.success || cursor.data[0] !== sort) throw wrong;
  return [cursor.data[1], cursor.data[2]];
}
