import { z } from 'zod';
import type { TenantView } from '../../store/mirror.ts';
import type { KindName } from '../../store/kinds/kinds.ts';
import type { ReadonlyResource } from '../../store/resource.ts';
import { badField } from '../ground/api-error.ts';
import type { ListMeta } from '../ground/cached-json.ts';
import { Reference } from './object-fields.ts';
import { matchesLabels, parseLabelSelector } from './label-selector.ts';

/** Which page of a list; part of the query of every list. */
export const pageBounds = {
  limit: z.coerce.number().int().min(1).max(500).default(100),
  cursor: z.string().max(1000).optional().meta({ description: '`next_cursor` of the page before' }),
};

/** Query of every list of objects; the parameters of one list are in its `Listing`. */
const base = z.object({
  ...pageBounds,
  q: z.string().max(200).optional().meta({ description: 'Part of a name or another text of the item, in any case' }),
});

/** The parsed query of a list; a filter that the list does not support is absent. */
export interface PageQuery extends z.infer<typeof base> {
  sort?: string | undefined;
  status?: readonly string[] | undefined;
  labelSelector?: string | undefined;
  projectId?: string | undefined;
  environmentId?: string | undefined;
  serverId?: string | undefined;
}

type SortValue = string | number;
const placed = ['projectId', 'environmentId', 'serverId'] as const;
export type Placed = (typeof placed)[number];

/** How objects of a kind are searched, filtered and sorted. A list must not be sortable by a secret. */
export interface Listing<K extends KindName> {
  /** Texts that `q` is searched in. */
  texts(it: ReadonlyResource<K>, view: TenantView): readonly (string | undefined)[];
  status?: { values: readonly string[]; of(it: ReadonlyResource<K>, view: TenantView): string };
  /** The items can be filtered by labels. */
  labels?: true;
  /** Filters by the object that an item belongs to: whether the item belongs to the one with this id. */
  filters?: Readonly<Partial<Record<Placed, (id: string, view: TenantView) => (it: ReadonlyResource<K>) => boolean>>>;
  /** Fields to sort by, in addition to `created_at` and `updated_at`. */
  sorts?: Readonly<Record<string, (it: ReadonlyResource<K>, view: TenantView) => SortValue>>;
  /** Default: `-created_at`. */
  defaultSort?: string;
}

/** The filter by project of what each project of the tenant may use: all of it, for a project that there is. */
export function usedByEach(projectId: string, view: TenantView): () => boolean {
  const isThere = view.get('project', projectId) !== undefined;
  return () => isThere;
}

const commonSorts: Readonly<Record<string, (it: Pick<ReadonlyResource, 'meta'>) => SortValue>> = {
  // objects that were created in the same millisecond are ordered by revision
  created_at: ({ meta }) => `${meta.createdAt} ${String(meta.createdRevision ?? 0).padStart(16, '0')}`,
  updated_at: (it) => it.meta.updatedAt,
};

/** The schema of a list's query: every filter and order that the list supports, and no others. */
export function pageQuery<K extends KindName>(
  listing: Pick<Listing<K>, 'status' | 'labels' | 'filters' | 'sorts' | 'defaultSort'>,
) {
  const sorts = Object.keys({ ...commonSorts, ...listing.sorts }).flatMap((field) => [field, `-${field}`]);
  const { projectId, environmentId, serverId } = listing.filters ?? {};
  return z.strictObject({
    ...base.shape,
    sort: z
      .enum(sorts)
      .optional()
      .meta({ description: `Default ${listing.defaultSort ?? newestFirst}; - in front: from high to low` }),
    ...(listing.status !== undefined && { status: statuses(listing.status.values).optional() }),
    ...(listing.labels === true && {
      labelSelector: z
        .string()
        .max(500)
        .optional()
        .meta({ description: 'Requirements separated by commas, such as team=blue,tier!=web,!old' }),
    }),
    ...(projectId && { projectId: Reference.optional() }),
    ...(environmentId && { environmentId: Reference.optional() }),
    ...(serverId && { serverId: Reference.optional() }),
  });
}

function statuses(values: readonly string[]): z.ZodType<readonly string[]> {
  return z
    .string()
    .max(200)
    .transform((text) => text.split(','))
    .pipe(z.array(z.enum(values, `must be one or several of ${values.join(', ')}, separated by commas`)))
    .meta({
      description: 'One state or several, separated by commas',
      override: { type: 'array', items: { type: 'string', enum: [...values] } },
      param: { style: 'form', explode: false },
    });
}

const newestFirst = '-created_at';

const Cursor = z.tuple([z.string(), z.union([z.string(), z.number()]), z.string()]);

/**
 * Returns one page of `candidates`, newest first unless `sort` asks otherwise. Equal times of creation are ordered by
 * revision, other equal values by id. A cursor names the last item of the page before, so that a page neither repeats
 * nor skips an item whose place has not changed.
 *
 * @throws ApiError BAD_REQUEST for a cursor of another list or order.
 */
export function pageOf<K extends KindName>(
  candidates: readonly ReadonlyResource<K>[],
  query: PageQuery,
  listing: Listing<NoInfer<K>>,
  view: TenantView,
): { items: readonly ReadonlyResource<K>[]; meta: ListMeta } {
  const matching = filtered(candidates, query, listing, view);
  const sort = query.sort ?? listing.defaultSort ?? newestFirst;
  const descending = sort.startsWith('-');
  const valueOf = sorterOf(descending ? sort.slice(1) : sort, listing, view);
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
  const tests: ((it: ReadonlyResource<K>) => boolean)[] = [];
  for (const field of placed) {
    const [matcher, id] = [listing.filters?.[field], query[field]];
    if (matcher !== undefined && id !== undefined) tests.push(matcher(id, view));
  }
  if (status !== undefined) tests.push((it) => status.includes(listing.status?.of(it, view) ?? ''));
  if (wanted !== undefined)
    tests.push((it) => listing.texts(it, view).some((text) => text?.toLowerCase().includes(wanted)));
  if (labels.length > 0) tests.push((it) => matchesLabels(it.meta.labels, labels));
  return tests.length === 0 ? candidates : candidates.filter((it) => tests.every((test) => test(it)));
}

/** @throws TypeError for an unknown field, which the schema of the query has already refused. */
function sorterOf<K extends KindName>(
  field: string,
  listing: Listing<K>,
  view: TenantView,
): (it: ReadonlyResource<K>) => SortValue {
  const own = listing.sorts?.[field];
  if (own !== undefined) return (it) => own(it, view);
  const common = commonSorts[field];
  if (common === undefined) throw new TypeError(`No such order: ${field}`);
  return common;
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
  const wrong = badField(
    'cursor',
    'invalid',
    'Cursor is not one of this list, or expired: read the list from its beginning',
  );
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
