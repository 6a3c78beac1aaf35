import type { TenantView } from '../../store/mirror.ts';
import { isDeleting } from '../../store/resource.ts';
import type { ReadonlyResource } from '../../store/resource.ts';
import { conflicting, forbidden, notFound, unauthorized } from '../ground/api-error.ts';
import type { Asked } from '../audit/audit-log.ts';
import { askedBy } from './denial.ts';
import { asOfNow, isStillGood } from '../auth/authenticate.ts';
import type { Principal } from '../auth/principal.ts';
import { authorize, isTenantWide } from '../rights/authorize.ts';
import type { Access, Place } from '../rights/authorize.ts';
import type { RoutedRequest } from './routed-request.ts';
import type { Services } from '../endpoint/context.ts';
import { routeName } from '../endpoint/endpoint.ts';
import type { AnyEndpoint, Endpoint } from '../endpoint/endpoint.ts';
import { resourceOf } from '../resources/resources.ts';
import type { ResourceKind } from '../resources/resources.ts';
import { isForAdmins, isPublic } from '../rights/permissions.ts';
import { refuseUnfinishedClone } from '../workloads/references.ts';
import { loadSubject, parseId, projectIdOf, tenantPlace, wordOf } from '../endpoint/subject.ts';

/** A request that may go on, and the caller that it runs as. */
export interface Admitted {
  it: ReadonlyResource<ResourceKind> | undefined;
  access: Access;
  /** The caller with their present rights: a retry may run long after the request came in. */
  caller: Principal | undefined;
  asked: Asked;
}

/** Decides whether a request may run. @throws ApiError if the object does not exist or the caller may not do it. */
export function admit(
  { clock }: Services,
  routed: RoutedRequest,
  endpoint: AnyEndpoint,
  search: Record<string, string>,
): Admitted {
  const { route, params, view } = routed;
  const { caller: before } = routed;
  const caller = before !== undefined && isStillGood(before, view, clock) ? asOfNow(before, view) : undefined;
  // a caller who may do this nowhere must not learn which objects exist
  if (caller !== undefined && isForAdmins(route.permission) && !isTenantWide(caller)) throw forbidden();
  const it = endpoint.on === undefined ? undefined : loadSubject(endpoint.on, params, view);
  const asked = { ...askedBy(routed), caller };
  if (isPublic(route.permission)) return { it, access: { column: 'other', grant: 'P' }, caller, asked };
  if (caller === undefined) throw unauthorized();
  const place = placeOf(routed, endpoint, it, search);
  const access = authorize(caller, route.permission, place);
  const projectId = place.project?.meta.id;
  return {
    it,
    access,
    caller,
    asked: { ...asked, role: access.column, ...(projectId !== undefined && { projectId }) },
  };
}

function placeOf(
  { view, body }: RoutedRequest,
  endpoint: AnyEndpoint,
  it: ReadonlyResource<ResourceKind> | undefined,
  search: Record<string, string>,
): Place {
  if (it !== undefined) {
    const id = projectIdOf(it);
    if (id !== undefined) {
      const project = view.get('project', id);
      if (project === undefined) throw notFound(wordOf(it.meta.kind));
      return { tenant: view, project };
    }
    // what belongs to no project may be put to use in one that the request names
    if (endpoint.projectFrom === undefined) return tenantPlace(view, it);
  }
  const from = endpoint.projectFrom;
  if (from === undefined) return { tenant: view };
  if (from === 'body.backed_up') return placeOfBackedUp(view, body);
  const [part, field = ''] = from.split('.');
  const value = part === 'query' ? search[field] : fieldOf(body, field);
  if (typeof value !== 'string') return { tenant: view };
  const id = parseId(field, value);
  const project = view.get('project', id);
  if (project === undefined) throw notFound(wordOf('project'), field);
  return { tenant: view, project };
}

/** The project of the object that a body names to be backed up. */
function placeOfBackedUp(view: TenantView, body: unknown): Place {
  for (const kind of ['database', 'volume', 'application'] as const) {
    const field = `${kind}_id`;
    const value = fieldOf(body, field);
    if (typeof value !== 'string') continue;
    const it = view.get(kind, parseId(field, value));
    const project = it && view.get('project', it.desired.project_id);
    if (project === undefined) throw notFound(wordOf(kind), field);
    return { tenant: view, project };
  }
  return { tenant: view };
}

function fieldOf(body: unknown, field: string): unknown {
  return typeof body === 'object' && body !== null
    ? Object.entries(body).find(([name]) => name === field)?.[1]
    : undefined;
}

/**
 * @throws ApiError CONFLICT if `If-Match` names another version, or if a verb is for an object that is being deleted.
 */
export function checkState(
  { headers, view }: RoutedRequest,
  endpoint: Endpoint,
  it: ReadonlyResource<ResourceKind> | undefined,
): void {
  const { method } = endpoint;
  if (it === undefined || method === 'GET') return;
  const wanted = method === 'POST' ? undefined : headers['if-match'];
  const version = String(it.meta.desiredRevision);
  if (wanted !== undefined && wanted !== '*' && !versionsOf(wanted).includes(version))
    throw conflicting(`The object is not at the version of If-Match: it is at ${version}`, [
      { field: 'If-Match', reason: 'mismatch', message: `Current version is ${version}` },
    ]);
  if (method !== 'DELETE' && isDeleting(it)) throw conflicting(`${wordOf(it.meta.kind)} is being deleted`);
  const environment = 'environment_id' in it.desired && view.get('environment', it.desired.environment_id);
  if (environment) refuseUnfinishedClone(environment);
}

/** @throws ApiError CONFLICT if the table of verbs forbids the request in the state of the object. */
export function requireVerb(endpoint: Endpoint, it: ReadonlyResource<ResourceKind>, view: TenantView): void {
  if (endpoint.method === 'GET') return;
  const cell = resourceOf(it.meta.kind).judge(routeName(endpoint), it, view);
  if (cell === undefined || cell === 'yes' || 'idle' in cell) return;
  const { no: message, detail } = cell;
  throw conflicting(message, detail && [{ ...detail, message }]);
}

/** The entity tags in a header such as `If-Match`, without quotes and `W/`. */
export function versionsOf(header: string): string[] {
  return header.split(',').map((tag) => tag.trim().replace(/^W\//, '').replaceAll('"', ''));
}
