import type { z } from 'zod';
import { definitionOf } from '../../store/definition.ts';
import { kinds } from '../../store/kinds/kinds.ts';
import type { KindName } from '../../store/kinds/kinds.ts';
import type { TenantView } from '../../store/mirror.ts';
import type { ReadonlyResource } from '../../store/resource.ts';
import { cellOf } from '../../rules/verb-table.ts';
import type { Cell, Shown, VerbTable } from '../../rules/verb-table.ts';
import type { Keep, Kept } from '../ground/cached-json.ts';
import { pageQuery } from './paging.ts';
import type { Listing, Placed } from './paging.ts';

/** A value that JSON shows as it is: answers are compared by their JSON. */
type Plain = string | number | boolean | null | readonly Plain[] | { readonly [field: string]: Plain };

/** What an answer shows of other objects, such as a status that follows from them. */
export type Seen = Readonly<Record<string, Plain>>;

/** What a user who may see only a part of an object gets. */
interface Masked<K extends KindName, S extends Seen, M> {
  answer: Schema<M>;
  show(it: ReadonlyResource<K>, seen: S): M;
}

/** A change of an object, for resources whose answers show something of it. */
export interface ChangeOf<K extends KindName> {
  id: string;
  before?: ReadonlyResource<K> | undefined;
  after?: ReadonlyResource<K> | undefined;
}

/**
 * Which other changes change an answer: the kind of the changed object → the ids of the objects whose answers show it.
 * Everything that `seen` reads must be here, or readers of `/ws/watch` keep an old answer.
 */
type ShownOf = { readonly [O in KindName]?: (change: ChangeOf<O>, view: TenantView) => readonly string[] };

/** A schema of an object, with the type of its output. */
type Schema<T> = z.ZodType<T> & Pick<z.ZodObject, 'shape'>;

export interface ResourceSpec<K extends KindName, A, S extends Seen, M> {
  kind: K;
  /** The kind in words for people. */
  word: string;
  /** Where rights are judged: the project whose roles decide about an object, or the tenant. */
  project: ((it: ReadonlyResource<NoInfer<K>>) => string | undefined) | 'tenant';
  /** The parameter with the id of the project, if the paths of the kind name both. */
  under?: string;
  /** Parameters with ids of parts of an object, such as its versions: handlers require that the part is of the object. */
  parts?: readonly string[];
  /** How an object that a path names is found, if it is not by its id alone. */
  find?: (
    view: TenantView,
    id: string,
    project: ReadonlyResource<'project'> | undefined,
  ) => ReadonlyResource<NoInfer<K>> | undefined;
  /** There is one object per tenant, which no path names. */
  single?: (view: TenantView) => ReadonlyResource<NoInfer<K>>;
  answer: Schema<A>;
  /** All that an answer shows beside the records of its object. An answer is built once for each value of it. */
  seen?: (it: ReadonlyResource<NoInfer<K>>, view: TenantView) => S;
  show(it: ReadonlyResource<NoInfer<K>>, seen: NoInfer<S>): NoInfer<A>;
  masked?: Masked<NoInfer<K>, NoInfer<S>, M>;
  /** Lists of the kind. Filters by fields of the object, the order by name and label selectors follow by themselves. */
  list: Omit<Listing<NoInfer<K>>, 'labels'>;
  /** Which verbs its objects take in which state; `none`: why there is no table. */
  verbs: VerbTable | { none: string };
  /** When `?wait=` answers, while the object exists; required for a kind that a controller brings to an end. */
  isSettled?: (it: ReadonlyResource<NoInfer<K>>, view: TenantView) => boolean;
  /** Whether `/ws/watch` sends its changes, and which changes of other objects are changes of it. */
  watch: { shows: ShownOf } | { never: string };
}

/** How `?wait=` looks at the object of an answer. */
export interface Settle<R> {
  isSettled(view: TenantView, id: string): boolean;
  /** The object as it is now; `undefined` if it is gone. */
  answer(by: { view: TenantView; keep: Keep }, id: string): Kept<R> | undefined;
}

/** How `?wait=` looks at each object of an answer of several. */
export type SettleEach<A> = A extends readonly (infer One)[] ? Settle<One> : never;

/** A kind as the API shows it. */
export interface Resource<K extends KindName = KindName, A = unknown, S extends Seen = Seen, M = unknown> extends Omit<
  ResourceSpec<K, A, S, M>,
  'list' | 'seen'
> {
  readonly listing: Listing<K>;
  readonly query: ReturnType<typeof pageQuery>;
  seen(it: ReadonlyResource<K>, view: TenantView): S;
  /** The answer that shows the object as it is in the view. */
  answerOf(it: ReadonlyResource<K>, view: TenantView): A;
  /** The answer, serialised once as long as nothing of it changes. */
  kept(keep: Keep, it: ReadonlyResource<K>, view: TenantView): Kept<A>;
  /** What a user gets who may see only a part of the object; the whole answer where the kind declares no part. */
  keptMasked(keep: Keep, it: ReadonlyResource<K>, view: TenantView): Kept<A | M>;
  readonly settle: Settle<A> | undefined;
  /** What a request to a route meets in the state that the object has; `undefined` for a route that is no verb. */
  judge(route: string, it: ReadonlyResource<K>, view: TenantView): Cell | undefined;
}

/**
 * Declares how the API shows a kind. What follows from the declaration: the cached answer, `?wait=`, the answers of the
 * usual endpoints, the query of its lists, the frames of `/ws/watch`, and where rights are judged.
 */
export function defineResource<const K extends KindName, A, S extends Seen = Readonly<Record<never, never>>, M = A>(
  spec: ResourceSpec<K, A, S, M>,
): Resource<K, A, S, M> {
  const { kind, list, isSettled, masked, answer, verbs } = spec;
  const table = 'none' in verbs ? undefined : verbs;
  const verbOf = new Map(Object.entries(table?.verbs ?? {}).map(([verb, { route }]) => [route, verb]));
  const nothing = {} as S; // without `seen`, S is the type of an empty object
  const seen = spec.seen ?? (() => nothing);
  const kept = (keep: Keep, it: ReadonlyResource<K>, view: TenantView): Kept<A> => {
    const now = seen(it, view);
    return keep(it, JSON.stringify(now), () => spec.show(it, now));
  };
  const listing: Listing<K> = {
    ...list,
    ...('labels' in answer.shape && { labels: true }),
    filters: { ...ownFilters(kind), ...list.filters },
    sorts: { ...ownSorts(kind), ...list.sorts },
  };
  return {
    ...spec,
    listing,
    query: pageQuery(listing),
    seen,
    answerOf: (it, view) => spec.show(it, seen(it, view)),
    kept,
    keptMasked(keep, it, view) {
      if (masked === undefined) return kept(keep, it, view);
      const now = seen(it, view);
      return keep<A | M>(it, `masked ${JSON.stringify(now)}`, () => masked.show(it, now));
    },
    settle: isSettled && {
      isSettled(view, id) {
        const it = view.get(kind, id);
        return it === undefined || isSettled(it, view);
      },
      answer({ view, keep }, id) {
        const it = view.get(kind, id);
        return it && kept(keep, it, view);
      },
    },
    judge(route, it, view) {
      const verb = verbOf.get(route);
      if (table === undefined || verb === undefined) return undefined;
      return cellOf(table, verb, spec.show(it, seen(it, view)) as Shown); // an answer is an object
    },
  };
}

const fieldsByFilter = { projectId: 'project_id', environmentId: 'environment_id', serverId: 'server_id' } as const;

/** Filters by the places that the desired state names. */
function ownFilters<K extends KindName>(kind: K): Listing<K>['filters'] {
  const named = Object.entries(fieldsByFilter).filter(([, field]) => field in kinds[kind].desired.shape);
  const filters: Partial<Record<Placed, (id: string) => (it: ReadonlyResource<K>) => boolean>> = Object.fromEntries(
    named.map(([filter, field]) => [
      filter,
      (id: string) => (it: ReadonlyResource<K>) => Reflect.get(it.desired, field) === id,
    ]),
  );
  return filters;
}

function ownSorts<K extends KindName>(kind: K): Listing<K>['sorts'] {
  if (!('name' in kinds[kind].desired.shape)) return {};
  return { name: ({ desired }) => String(Reflect.get(desired, 'name')) };
}

/** Whether the mirror finds objects of the kind by the object that they belong to. */
export function hasIndex(kind: KindName, index: string): boolean {
  return Object.hasOwn(definitionOf(kind).indexes ?? {}, index);
}
