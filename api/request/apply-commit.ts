import type { ApplyCommit, CommitPlan, CommitToApply } from '../../store/declared/commit.ts';
import { isConflict, isUnavailable, unavailable } from '../../store/errors.ts';
import { isDeleting } from '../../store/resource.ts';
import { jsonEqual } from '../../store/json-equal.ts';
import type { ReadonlyResource } from '../../store/resource.ts';
import { openTenantGuard } from '../../store/tenants.ts';
import { byProof } from '../auth/authenticate.ts';
import type { DeclaredObject } from '../declared/objects.ts';
import { valuesOf, withValues } from '../declared/sync-variables.ts';
import type { RequestContext, Services } from '../endpoint/context.ts';
import { createRequestRepository } from '../endpoint/request-repository.ts';
import { ApiError, conflicting, forbidden, notFound } from '../ground/api-error.ts';
import { isWorthRetrying, toApiError } from '../http/to-api-error.ts';
import { authorize } from '../rights/authorize.ts';
import { permissions } from '../rights/permissions.ts';
import { guardEveryUnit } from './guard-every-unit.ts';

/** The route whose row decides about a commit, and that its audit record names. */
const route = 'POST /apply';

/** Codes of errors that say what is wrong with a commit, or in its way. */
const refusals: readonly string[] = ['BAD_REQUEST', 'FORBIDDEN', 'NOT_FOUND', 'CONFLICT', 'TOO_MANY_REQUESTS'];

/**
 * Plans and applies commits as a request to `POST /apply` with the service key of the sync would: its rights, its budgets
 * and its audit record. A transaction also has the fence of the leader, so that no former one applies an older commit.
 */
export function commitApplier(services: Services): ApplyCommit {
  const read: ReadCommits = new WeakMap();
  return async (asked) => {
    try {
      await services.fresh();
      return { plan: await apply(services, asked, read) };
    } catch (error) {
      if (isUnavailable(error) || (isConflict(error) && isWorthRetrying(error))) throw error;
      const known = toApiError(error);
      // the controller tries again as after any silence of the store
      if (known?.code === 'SERVICE_UNAVAILABLE') throw unavailable(known.message, error);
      if (known !== undefined && refusals.includes(known.code))
        return { refused: inWords(known), isPassing: known.code === 'TOO_MANY_REQUESTS' };
      throw error;
    }
  };
}

/** What commits declare, or what is wrong with them: to parse their files anew for each comparison would hold up others. */
type ReadCommits = WeakMap<CommitToApply['files'], { of: CommitToApply['sync']; objects: Objects }>;
type Objects = readonly DeclaredObject[] | ApiError;

/** What files declare, parsed once for as long as they and the values of the sync are kept. @throws ApiError BAD_REQUEST */
async function objectsOf(
  services: Services,
  asked: CommitToApply,
  read: ReadCommits,
): Promise<readonly DeclaredObject[]> {
  const { files, sync } = asked;
  const known = read.get(files);
  if (known !== undefined && jsonEqual(known.of, sync)) return requireRead(known.objects);
  // the parser of YAML is loaded when the first commit comes
  const { readFiles } = await import('../declared/read.ts');
  const values = valuesOf(asked, services);
  const objects = parsed(() => readFiles(files, (text) => withValues(text, values)));
  read.set(files, { of: sync, objects });
  return requireRead(objects);
}

/** @throws ApiError BAD_REQUEST */
function requireRead(found: Objects): readonly DeclaredObject[] {
  if (found instanceof ApiError) throw found;
  return found;
}

function parsed(parse: () => readonly DeclaredObject[]): readonly DeclaredObject[] | ApiError {
  try {
    return parse();
  } catch (error) {
    if (error instanceof ApiError) return error;
    throw error;
  }
}

/** @throws ApiError; conflict */
async function apply(services: Services, asked: CommitToApply, read: ReadCommits): Promise<CommitPlan> {
  const { tenant, manager, prune, force, corrects, isDryRun } = asked;
  const view = services.mirror.tenant(tenant);
  const project = view.get('project', asked.project);
  if (project === undefined || isDeleting(project)) throw notFound('Project');
  const environment = asked.environment === undefined ? undefined : view.get('environment', asked.environment);
  if (asked.environment !== undefined && environment === undefined)
    throw conflicting('The environment of its objects was deleted: change the sync, and name another one');
  const objects = await objectsOf(services, asked, read);
  const { applyObjects } = await import('../declared/apply.ts');
  const ctx = contextFor(services, asked, project);
  const of = { project, environment, objects, manager, set: manager, prune, force, corrects, isDryRun };
  // a person has stopped what is stopped: a commit starts none, as a push does not
  return applyObjects(ctx, { ...of, deploys: true, startsStopped: false });
}

/** What a request with the key of the sync would get. @throws ApiError FORBIDDEN */
function contextFor(
  services: Services,
  { tenant, key, manager, fence, signal }: CommitToApply,
  project: ReadonlyResource<'project'>,
): RequestContext {
  const { clock, random, mirror } = services;
  const view = mirror.tenant(tenant);
  const principal = byProof({ type: 'key', id: key }, { view, clock });
  if (principal === undefined)
    throw forbidden(
      'The service key that the sync acts with was revoked or has expired, or its user is gone: change the sync with take_over, so that it acts for you',
    );
  const permission = permissions.get(route);
  if (permission === undefined) throw new Error(`Cannot judge ${route}: it has no row`);
  const access = authorize(principal, permission, { tenant: view, project });
  const repository = guardEveryUnit(services.repositoryFor(tenant), () => fence);
  const { repo, committable } = createRequestRepository(
    guardEveryUnit(repository, () => {
      const guard = openTenantGuard(mirror, tenant);
      if (guard === undefined) throw notFound('Tenant');
      return guard;
    }),
  );
  if (principal.by.type === 'key') services.keyUsed(principal.by.key, repository);
  const request = { id: random.id(), address: manager, userAgent: '', isKeyed: false };
  const audited = { tenant, view, route, request, caller: principal, role: access.column, projectId: project.meta.id };
  return {
    ...services,
    tenant,
    view,
    repo,
    request,
    params: new Map(),
    access,
    caller: principal,
    principal,
    signal: () => signal,
    async commit(unit, answer) {
      const whole = committable(unit);
      signal.throwIfAborted();
      const change = services.audit.change(audited, whole);
      const sentAt = clock.monotonic();
      const revision = await services.budgets.commit({ view, caller: principal }, whole);
      if (revision !== undefined) services.committed(revision, sentAt);
      await change?.committed();
      return answer();
    },
    countFailure: provesNothing,
    countWrongFactor: provesNothing,
  };
}

async function provesNothing(): Promise<never> {
  throw new Error('A commit proves no account');
}

/** Most faults of a commit that are told. */
const mostTold = 5;

function inWords({ message, details }: ApiError): string {
  const all = [...new Set([message, ...details.map((one) => one.message)])];
  const more = all.length > mostTold ? `; and ${all.length - mostTold} more` : '';
  return `${all.slice(0, mostTold).join('; ')}${more}`.slice(0, 2000);
}
