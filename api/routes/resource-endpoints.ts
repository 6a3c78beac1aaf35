import { z } from 'zod';
import type { Unit } from '../../store/unit-of-work.ts';
import type { DesiredOf } from '../../store/kinds/kinds.ts';
import type { ReadonlyResource, Resource as Stored } from '../../store/resource.ts';
import { visibleProjects } from '../rights/authorize.ts';
import type { RequestContext } from '../endpoint/context.ts';
import { defineEndpoint, defineList } from '../endpoint/endpoint.ts';
import type { PageReply, PathOf } from '../endpoint/endpoint.ts';
import { badField, conflicting } from '../ground/api-error.ts';
import type { ApiError } from '../ground/api-error.ts';
import type { Kept } from '../ground/cached-json.ts';
import { readOnlyFields } from '../resources/object-fields.ts';
import { pageOf } from '../resources/paging.ts';
import type { Listing, PageQuery } from '../resources/paging.ts';
import type { RouteName } from '../rights/permissions.ts';
import { eventsOf, ObjectEvents } from '../resources/event.ts';
import { hasIndex } from '../resources/resource.ts';
import type { Resource, Seen } from '../resources/resource.ts';
import type { ResourceKind } from '../resources/resources.ts';
import { projectIdOf } from '../endpoint/subject.ts';
import { referralsInWords, referringWorkloads } from '../workloads/env-references.ts';

/** Where an endpoint is, and what it does in words. */
interface At {
  path: PathOf<RouteName>;
  summary: string;
}

/** The object of a resource, or the part of it that the caller may see. */
export function getEndpoint<K extends ResourceKind, A, S extends Seen, M>(resource: Resource<K, A, S, M>, at: At) {
  return defineEndpoint({
    ...at,
    method: 'GET',
    on: [resource.kind, lastParam(at.path)],
    response: schemaOf(resource),
    handle: async (ctx, { it }) => shownTo(ctx, resource, it),
  });
}

/** The objects of a resource that the caller may see. */
export function listEndpoint<K extends ResourceKind, A, S extends Seen, M>(
  resource: Resource<K, A, S, M>,
  at: At,
  candidates = (ctx: RequestContext, query: PageQuery): readonly ReadonlyResource<K>[] =>
    visibleObjects(ctx, resource, query),
) {
  return defineList({
    ...at,
    query: resource.query,
    item: schemaOf(resource),
    handle: async (ctx, { query }) => pageOfResource(ctx, resource, candidates(ctx, query), query),
  });
}

/** The objects of a resource that belong to the object that the path names: the kind has an index by its kind. */
export function listOfEndpoint<P extends ResourceKind, K extends ResourceKind, A, S extends Seen, M>(
  parent: P,
  resource: Resource<K, A, S, M>,
  at: At,
) {
  return defineList({
    ...at,
    on: [parent, lastParam(at.path)],
    query: resource.query,
    item: schemaOf(resource),
    handle: async (ctx, { it, query }) =>
      pageOfResource(ctx, resource, ctx.view.by(resource.kind, parent, it.meta.id), query),
  });
}

/** Kinds whose objects have a name. */
type NamedKind = { [K in ResourceKind]: DesiredOf<K> extends { name: string } ? K : never }[ResourceKind];

/** Fields of each body that changes a named object. */
interface Renaming {
  name?: string | undefined;
  labels?: Record<string, string> | undefined;
}

/**
 * Changes an object: only what is sent. Name and labels change by themselves; `change` writes the other fields, and
 * `check` adds to the unit what follows from the change. Nothing is written if one of them throws.
 */
export function updateEndpoint<K extends NamedKind, A, S extends Seen, M, B extends Renaming>(
  resource: Resource<K, A, S, M>,
  at: At,
  options: {
    /** What the answer shows of other objects, where the unit changes these, too. */
    seen?: (ctx: RequestContext, unit: Unit, changed: ReadonlyResource<K>) => S;
    body: z.ZodType<B> & Pick<z.ZodObject, 'shape'>;
    /** What a GET of the object answers, where that is more than the answer of a list. */
    detail?: Pick<z.ZodObject, 'shape'>;
    /** Counts against the smaller of the two rate limits. */
    heavy?: true;
    change?: (draft: DesiredOf<K>, body: B, ctx: RequestContext) => void;
    check?: (
      ctx: RequestContext,
      unit: Unit,
      input: { it: ReadonlyResource<K>; changed: ReadonlyResource<K>; body: B },
    ) => Promise<void>;
  },
) {
  const { body: schema, detail = resource.answer, heavy, change, check, seen } = options;
  return defineEndpoint({
    ...at,
    method: 'PUT',
    ...(heavy === true && { heavy }),
    on: [resource.kind, lastParam(at.path)],
    body: schema,
    readOnly: readOnlyFields(detail, schema),
    response: resource.answer,
    settle: resource.settle,
    handle: async (ctx, { it, body }) => {
      const unit = ctx.repo.begin();
      const changed = readable(
        unit.change(it, (draft) => {
          draft.name = body.name ?? draft.name;
          change?.(draft, body, ctx);
        }),
      );
      if (body.labels !== undefined) unit.label(it, body.labels);
      await check?.(ctx, unit, { it, changed, body });
      const shown = seen?.(ctx, unit, changed);
      return ctx.commit(unit, () =>
        shown === undefined ? resource.answerOf(changed, ctx.view) : resource.show(changed, shown),
      );
    },
  });
}

/** The query of a deletion that takes along what is in the object: `force=true`. */
export const Force = z.object({ force: z.enum(['true', 'false']).optional() });

/** Refuses a deletion without `force`, because of what is in the object. */
export function needsForce(obstacle: string): ApiError {
  return lacksForce(`${obstacle}: delete them or send force=true`);
}

function lacksForce(message: string): ApiError {
  return conflicting(message, [{ field: 'force', reason: 'force_needed', message }]);
}

/** @throws ApiError CONFLICT naming force, while variables of others refer to the object */
export function requireUnreferredOrForce(...[view, it]: Parameters<typeof referringWorkloads>): void {
  const lack = referralsInWords(it, referringWorkloads(view, it));
  if (lack === undefined) return;
  throw lacksForce(`${lack}: change them, or send force=true`);
}

/** Deletes an object: with `check`, which adds guards to the unit, only if it does not throw. */
export function deleteEndpoint<K extends ResourceKind, A, S extends Seen, M, Q>(
  resource: Resource<K, A, S, M>,
  at: At,
  options: {
    query?: z.ZodType<Q>;
    check?: (ctx: RequestContext, unit: Unit, input: { it: ReadonlyResource<K>; query: Q }) => Promise<void>;
  } = {},
) {
  const { query, check } = options;
  return defineEndpoint({
    ...at,
    method: 'DELETE',
    on: [resource.kind, lastParam(at.path)],
    ...(query !== undefined && { query }),
    response: resource.answer,
    settle: resource.settle,
    handle: async (ctx, { it, query: sent }) => {
      const unit = ctx.repo.begin();
      await check?.(ctx, unit, { it, query: sent });
      const deleted = readable(unit.change(it, () => undefined));
      unit.requestDelete(it);
      return ctx.commit(unit, () => resource.answerOf(deleted, ctx.view));
    },
  });
}

/** What happened to an object, newest first. */
export function eventsEndpoint<K extends ResourceKind>({ kind }: Pick<Resource<K>, 'kind'>, at: At) {
  return defineEndpoint({
    ...at,
    method: 'GET',
    on: [kind, lastParam(at.path)],
    response: ObjectEvents,
    handle: async (ctx, { it }) => eventsOf(ctx.mirror, it),
  });
}

/** One page of objects, each as the caller may see it. */
export function pageOfResource<K extends ResourceKind, A, S extends Seen, M>(
  ctx: RequestContext,
  resource: Resource<K, A, S, M>,
  candidates: readonly ReadonlyResource<K>[],
  query: PageQuery,
): PageReply<A | M> {
  const { items, meta } = pageOf(candidates, query, listingFor(ctx, resource, query), ctx.view);
  return { items: items.map((it) => shownTo(ctx, resource, it)), meta };
}

/**
 * How the caller may search a list. For one who sees only a part of each object nothing else decides what is found, as hit
 * or no hit would tell it.
 *
 * @throws ApiError BAD_REQUEST for a filter or an order by what the caller does not see
 */
function listingFor<K extends ResourceKind, A, S extends Seen, M>(
  { access }: RequestContext,
  resource: Resource<K, A, S, M>,
  query: PageQuery,
): Listing<K> {
  const { listing, masked } = resource;
  if (masked === undefined || access.grant === '+') return listing;
  requireShown(query, masked.answer.shape);
  return {
    ...listing,
    texts: (it, view) => {
      const shown: unknown[] = Object.values(Object(masked.show(it, resource.seen(it, view))));
      return listing.texts(it, view).filter((text) => shown.includes(text));
    },
  };
}

/** @throws ApiError BAD_REQUEST */
function requireShown({ status, labelSelector, sort }: PageQuery, shown: Readonly<Record<string, unknown>>): void {
  const used = {
    status: status && 'status',
    labelSelector: labelSelector && 'labels',
    sort: sort?.replace(/^-/, ''),
  };
  for (const [parameter, field = 'created_at'] of Object.entries(used)) {
    if (field === 'created_at' || field in shown) continue; // the usual order of every list is by creation
    throw badField(
      parameter,
      'not_shown',
      `${parameter} is refused, as you do not see ${field} of these: leave it out`,
    );
  }
}

/** What may be changed may be read, which the type system does not see for any K. */
function readable<K extends ResourceKind>(it: Stored<K>): ReadonlyResource<K> {
  return it as unknown as ReadonlyResource<K>;
}

/** Objects of the projects that the caller may see; where the query names a project, of this one alone. */
function visibleObjects<K extends ResourceKind, A, S extends Seen, M>(
  { view, principal }: RequestContext,
  { kind }: Pick<Resource<K, A, S, M>, 'kind'>,
  { projectId }: PageQuery,
): readonly ReadonlyResource<K>[] {
  const visible = visibleProjects(principal, view);
  const all =
    projectId !== undefined && hasIndex(kind, 'project') ? view.by(kind, 'project', projectId) : view.list(kind);
  return visible === 'all' ? all : all.filter((it) => visible.has(projectIdOf(it) ?? ''));
}

function shownTo<K extends ResourceKind, A, S extends Seen, M>(
  { access, keep, view }: RequestContext,
  resource: Resource<K, A, S, M>,
  it: ReadonlyResource<K>,
): Kept<A | M> {
  return access.grant === '+' ? resource.kept(keep, it, view) : resource.keptMasked(keep, it, view);
}

function schemaOf<K extends ResourceKind, A, S extends Seen, M>({
  answer,
  masked,
}: Resource<K, A, S, M>): z.ZodType<A | M> {
  return masked === undefined ? answer : z.union([answer, masked.answer]);
}

/** The parameter of a path that names the object. */
function lastParam(path: string): string {
  const last = /:(\w+)[^:]*$/.exec(path)?.[1];
  if (last === undefined) throw new Error(`Path must name an object: ${path}`);
  return last;
}
