import { z } from 'zod';
import { isConflict, isUnavailable } from '../../store/errors.ts';
import type { CommittableUnit } from '../../store/unit-of-work.ts';
import type { ReadonlyResource } from '../../store/resource.ts';
import { isOpenTenant } from '../../store/tenants.ts';
import { admit, checkState, requireVerb, versionsOf } from './admit.ts';
import type { Admitted } from './admit.ts';
import { afterCommit, ApiError, forbidden, notFound } from '../ground/api-error.ts';
import { mention } from '../../store/audit/mention.ts';
import { recordDenial } from './denial.ts';
import { countFailure } from '../auth/login-codes.ts';
import { countWrongFactor } from '../auth/wrong-factors.ts';
import { keyOf, principalId } from '../auth/principal.ts';
import type { Principal } from '../auth/principal.ts';
import { isTenantAdmin } from '../rights/authorize.ts';
import type { RoutedRequest, Outcome } from './routed-request.ts';
import type { ReadingServices, RequestContext, Services } from '../endpoint/context.ts';
import type { DownloadEndpoint, Endpoint, Input, ListEndpoint } from '../endpoint/endpoint.ts';
import type { Kept, Reply } from '../ground/cached-json.ts';
import type { ResourceKind } from '../resources/resources.ts';
import { isDownload } from '../endpoint/endpoint.ts';
import { recallAnswer, recordAnswer } from './idempotency.ts';
import type { IdempotentRequest } from './idempotency.ts';
import { isKept, serialise } from '../ground/cached-json.ts';
import { parseKnown } from '../http/known-query.ts';
import { MirrorAttempt } from './mirror-attempt.ts';
import type { PageCache } from './page-cache.ts';
import { isPublic } from '../rights/permissions.ts';
import type { Route } from './router.ts';
import { parseInput } from '../http/parse-input.ts';
import { createRequestRepository } from '../endpoint/request-repository.ts';
import { objectBody, pageBody } from '../http/respond.ts';
import { untilSettled } from '../ground/settle.ts';
import { searchOf } from './search.ts';
import { isWorthRetrying, toApiError } from '../http/to-api-error.ts';

const attempts = 5;
const NoBody = z.strictObject({});
const Wait = z.object({ wait: z.coerce.number().min(0).max(300).optional() });

/**
 * Loads the object that the path names, checks the right of the caller, parses the input and runs the handler. A write
 * that lost a race to another one is tried again from the beginning, rights included. The audit log records commits and
 * refusals.
 */
export async function runEndpoint(
  services: Services & { pageCache: PageCache },
  routed: RoutedRequest,
): Promise<Outcome> {
  const progress: Progress = { hasWritten: false };
  try {
    return await run(services, routed, progress);
  } catch (error) {
    if (error instanceof ApiError) await recordDenial(services, routed, error);
    throw progress.hasWritten ? afterCommit(toApiError(error) ?? error) : error;
  }
}

/** What a request has done so far, in case it fails. */
interface Progress {
  hasWritten: boolean;
}

/** Checks the right of the caller by the path alone, before the body is read. @throws ApiError, which is recorded */
export async function judgeFirst(services: Services, routed: RoutedRequest): Promise<void> {
  try {
    admit(services, routed, routed.route.endpoint, {});
  } catch (error) {
    if (error instanceof ApiError) await recordDenial(services, routed, error);
    throw error;
  }
}

async function run(
  services: Services & { pageCache: PageCache },
  routed: RoutedRequest,
  progress: Progress,
): Promise<Outcome> {
  const { endpoint } = routed.route;
  const search = routed.search === '' ? {} : searchOf(routed.search);
  if (endpoint.list) return runList(services, routed, endpoint, search);
  if (isDownload(endpoint)) return runDownload(services, routed, endpoint, search);
  const patience = endpoint.method === 'GET' ? undefined : parseInput(Wait, search, 'query').wait;
  const act = (): Promise<Kept<unknown> | undefined> =>
    takeTurn(services, routed, endpoint, (attempt) => runOnce(services, routed, endpoint, search, progress, attempt));
  const key = endpoint.actsOnce === true ? routed.headers['idempotency-key'] : undefined;
  // a request that is sent again while the first one acts waits for its answer
  const answer = await (typeof key === 'string'
    ? services.inTurn(`${routed.tenant} key ${routed.path} ${key}`, act)
    : act());
  const settled = patience === undefined ? answer : await settle(services, routed, endpoint, answer, patience);
  if (settled === undefined) return { status: 204 };
  return {
    status: endpoint.status ?? 200,
    body: objectBody(settled),
    ...(settled.etag !== undefined && { etag: settled.etag }),
  };
}

/**
 * Whether requests of the route are first decided from the mirror as it is. Those of unknown callers are not, nor those
 * that act before they write or are judged before their body is read.
 */
export function beginsFromMirror({ endpoint, permission }: Route): boolean {
  if (endpoint.list || endpoint.method === 'GET' || isPublic(permission)) return false;
  return endpoint.waitsForAgent !== true && endpoint.upload === undefined && endpoint.streamed === undefined;
}

/** Runs an endpoint, from an attempt or from a mirror that was made fresh after the request came in. */
type Run<T> = (attempt?: MirrorAttempt) => Promise<T>;

/** Runs writers of one object one after another; each reads what the one before wrote. */
function takeTurn<T>(services: Services, routed: RoutedRequest, endpoint: Endpoint, run: Run<T>): Promise<T> {
  const decide = async (waited: boolean): Promise<T> => {
    if (!beginsFromMirror(routed.route)) {
      if (waited) await services.fresh();
      return withRetries(services, routed.tenant, run);
    }
    if (waited) await services.near();
    const done = await tryFromMirror(services, routed, run);
    if (done !== undefined) return done.result;
    await freshen(services, routed.tenant);
    return withRetries(services, routed.tenant, run);
  };
  const id = endpoint.on === undefined ? undefined : routed.params.get(endpoint.on[1]);
  if (id === undefined || endpoint.method === 'GET' || endpoint.waitsForAgent === true) return decide(false);
  return services.inTurn(`${routed.tenant} ${id}`, decide);
}

/**
 * Decides a write from the mirror as it is. Returns `undefined` if the request must be decided from fresh state: the
 * mirror was behind in something that mattered, a guard could not prove the decision, nothing was to be written, or the
 * request would be refused. Nothing was written then, or a later transaction of the request lost a race.
 */
async function tryFromMirror<T>(
  { unanswered }: Services,
  { view }: RoutedRequest,
  run: Run<T>,
): Promise<{ result: T } | undefined> {
  const attempt = new MirrorAttempt(view);
  try {
    const result = await run(attempt);
    return attempt.hasWritten ? { result } : undefined;
  } catch (error) {
    const isUnanswered = isUnavailable(error);
    if (isUnanswered) unanswered();
    // a transaction whose outcome is unknown must not be sent again
    if (isUnanswered || (attempt.hasWritten && !isWorthRetrying(error))) throw error;
    return undefined;
  }
}

async function freshen(services: Services, tenant: string): Promise<void> {
  await services.fresh();
  if (!isOpenTenant(services.mirror, tenant)) throw notFound('Tenant');
}

async function withRetries<T>(services: Services, tenant: string, run: Run<T>): Promise<T> {
  for (let attempt = 1; ; attempt += 1) {
    try {
      return await run();
    } catch (error) {
      if (attempt === attempts || !isWorthRetrying(error)) throw error;
      await freshen(services, tenant);
    }
  }
}

async function runOnce(
  services: Services,
  routed: RoutedRequest,
  endpoint: Endpoint,
  search: Record<string, string>,
  progress: Progress,
  attempt: MirrorAttempt | undefined,
): Promise<Kept<unknown> | undefined> {
  const seen = attempt === undefined ? routed : { ...routed, view: attempt.view };
  const { it, asked, ...admitted } = admit(services, seen, endpoint, search);
  const { access, caller } = admitted;
  checkState(seen, endpoint, endpoint.ofCaller === true ? caller?.user : it);
  const body = parseBody(endpoint, routed.body);
  const query = queryOf(endpoint, search);
  const key = endpoint.method === 'POST' ? routed.headers['idempotency-key'] : undefined;
  let idempotent: IdempotentRequest | undefined;
  if (typeof key === 'string' && caller !== undefined) {
    const recalled = await recallAnswer(
      services,
      {
        tenant: routed.tenant,
        caller: principalId(caller),
        user: caller.user.meta.id,
        path: routed.path,
        key,
        body: routed.body,
      },
      async (record) => {
        if (attempt === undefined) return services.store.get(record);
        if (services.mirror.key(record) !== undefined) throw attempt.unproven('a recorded answer');
        return undefined;
      },
    );
    if ('answer' in recalled) return serialise(JSON.parse(recalled.answer));
    idempotent = recalled.begin;
  }
  const done = { audited: false, recorded: false };
  const commit: Commit = async (unit, answer) => {
    const change = services.audit.change(asked, unit);
    attempt?.decided(unit);
    if (idempotent !== undefined) {
      const kept = toKept(answer());
      if (kept !== undefined) {
        recordAnswer(services, unit, idempotent, kept.json, changes(it, kept.json));
        done.recorded = true;
      }
    }
    const sentAt = services.clock.monotonic();
    const revision = await services.budgets.commit({ view: routed.view, caller }, unit);
    if (revision !== undefined) {
      services.committed(revision, sentAt);
      attempt?.written();
      progress.hasWritten = true;
    } else if (attempt?.hasWritten === false) throw attempt.unproven('that there is nothing to write');
    if (change !== undefined) done.audited = true;
    await change?.committed();
    return answer();
  };
  const ctx = contextOf(services, seen, admitted, commit, attempt);
  if (it !== undefined) requireVerb(endpoint, it, attempt?.shown ?? routed.view);
  // the cast is safe: an endpoint without `on`, `query` or `body` does not read that part of its input
  const reply = toKept(await endpoint.handle(ctx, { it, query, body } as Input<ResourceKind, unknown, unknown>));
  // nothing is sent that was decided by an attempt without a commit
  if (attempt?.hasWritten === false) return undefined;
  // secrets are not sent without an audit record
  if (endpoint.givesSecrets === true && access.grant !== 'm' && !done.audited)
    await services.audit.read(asked, it === undefined ? [] : [mention(it)]);
  if (endpoint.actsOnce === true && !done.recorded) await recordAlone(services, routed, caller, idempotent, reply);
  return reply;
}

/** A longer answer of what acts without a transaction is not kept: its key acts again. */
const maxAloneBytes = 64 * 1024;

/**
 * Records an answer that is of no transaction. What was done is done: where it cannot be recorded, the answer is sent all the same.
 *
 * @throws conflict if another request with the key was answered meanwhile: tried again, this one gets the answer of that
 */
async function recordAlone(
  services: Services,
  { repo, view }: RoutedRequest,
  caller: Principal | undefined,
  idempotent: IdempotentRequest | undefined,
  reply: Kept<unknown> | undefined,
): Promise<void> {
  if (idempotent === undefined || reply === undefined || Buffer.byteLength(reply.json) > maxAloneBytes) return;
  const unit = repo.begin();
  recordAnswer(services, unit, idempotent, reply.json, false);
  try {
    await services.budgets.commit({ view, caller }, unit);
  } catch (error) {
    if (isConflict(error)) throw error;
    services.log.warn({ err: error }, 'the answer to an Idempotency-Key could not be kept');
  }
}

/** What is downloaded has another address with each version, which browsers may keep. */
const DownloadQuery = z.object({ v: z.string().optional() });

async function runDownload(
  services: Services,
  routed: RoutedRequest,
  endpoint: DownloadEndpoint,
  search: Record<string, string>,
): Promise<Outcome> {
  const { it, ...admitted } = admit(services, routed, endpoint, {});
  parseKnown(DownloadQuery, search);
  const ctx = contextOf(services, routed, admitted, readOnly);
  // the cast is safe as in `runOnce`
  const { bytes, type, fileName, etag } = await endpoint.handle(ctx, { it } as Input<
    ResourceKind,
    undefined,
    undefined
  >);
  const quoted = `"${etag}"`;
  const headers = {
    'cache-control': 'private, no-cache',
    'content-disposition': `attachment; filename="${fileName}"`,
    // a browser that shows the file as a page must not run anything in it
    'content-security-policy': "default-src 'none'; frame-ancestors 'none'; sandbox",
  };
  const known = routed.headers['if-none-match'];
  if (known !== undefined && (known.trim() === '*' || versionsOf(known).includes(etag)))
    return { status: 304, etag: quoted, headers };
  return { status: 200, body: bytes, type, etag: quoted, headers };
}

async function runList(
  services: Services & { pageCache: PageCache },
  routed: RoutedRequest,
  endpoint: ListEndpoint,
  search: Record<string, string>,
): Promise<Outcome> {
  const { it, ...admitted } = admit(services, routed, endpoint, search);
  const { caller } = admitted;
  const reader = caller === undefined ? '' : readerOf(caller, endpoint);
  const cached = `${routed.tenant} ${reader} ${routed.path}?${routed.search}`;
  const { applied } = services.mirror;
  const known = endpoint.ofNow === true ? undefined : services.pageCache.get(cached, applied);
  if (known !== undefined) return { status: 200, body: known };
  const query = parseKnown(endpoint.query, search);
  const ctx = contextOf(services, routed, admitted, readOnly);
  // the cast is safe as in `runOnce`
  const page = await endpoint.handle(ctx, { it, query, body: undefined } as Input<ResourceKind, unknown, undefined>);
  const body = Buffer.from(pageBody(page.items, page.meta));
  if (services.mirror.applied === applied && endpoint.ofNow !== true) services.pageCache.set(cached, applied, body);
  return { status: 200, body };
}

function queryOf({ method, query }: Endpoint, search: Record<string, string>): unknown {
  if (method === 'GET') return parseKnown(query, search);
  return query === undefined ? undefined : parseInput(query, search, 'query');
}

/** Callers with the same reader name share cached pages: an admin sees everything, unless the key is narrowed. */
function readerOf(caller: Principal, { ownOnly, perSession }: ListEndpoint): string {
  if (perSession === true && caller.by.type === 'session') return `session/${caller.by.session.meta.id}`;
  const seesAll = ownOnly !== true && isTenantAdmin(caller) && keyOf(caller)?.desired.project_id === undefined;
  return seesAll ? 'admin' : principalId(caller);
}

/** Whether a request has a body; a DELETE has one only if its endpoint declares it. */
export function takesBody({ method, body }: Pick<Endpoint, 'method' | 'body'>): boolean {
  return method !== 'GET' && (method !== 'DELETE' || body !== undefined);
}

function parseBody(endpoint: Endpoint, body: unknown): unknown {
  if (!takesBody(endpoint)) return undefined;
  if (endpoint.raw !== undefined) return body;
  return parseInput(
    endpoint.body ?? NoBody,
    withoutReadOnly(body === undefined ? {} : body, endpoint.readOnly),
    'body',
  );
}

/** Drops the read-only fields of the object, so that an answer can be changed and sent back. */
function withoutReadOnly(body: unknown, readOnly: readonly string[] | undefined): unknown {
  if (readOnly === undefined || typeof body !== 'object' || body === null || Array.isArray(body)) return body;
  return Object.fromEntries(Object.entries(body).filter(([name]) => !readOnly.includes(name)));
}

/** The implementation of `RequestContext.commit`; it gets the committable form of the unit. */
type Commit = <T>(unit: CommittableUnit, answer: () => Reply<T>) => Promise<Reply<T>>;

/**
 * Has plain fields only: an object literal with accessors gets a new hidden class each time it is made, which is slow.
 */
function contextOf(
  services: Services,
  routed: RoutedRequest,
  { access, caller }: Pick<Admitted, 'access' | 'caller'>,
  commit: Commit,
  attempt?: MirrorAttempt,
): RequestContext {
  const { tenant, view, request, signal, params } = routed;
  const { repo, committable } = createRequestRepository(routed.repo);
  const count: RequestContext['countFailure'] = (code) =>
    countFailure({ clock: services.clock, request, repo: routed.repo }, code);
  const countFactor: RequestContext['countWrongFactor'] = (user) =>
    countWrongFactor({ clock: services.clock, random: services.random, request, repo: routed.repo }, user);
  const reading: ReadingServices = attempt?.services(services) ?? services;
  // public routes let a request without caller in; their handlers read `caller`, not `principal`
  const principal = caller as Principal;
  return {
    ...reading,
    tenant,
    view,
    repo: attempt?.repository(repo) ?? repo,
    request,
    params,
    access,
    caller,
    principal,
    signal,
    commit: (unit, answer) => commit(committable(unit), answer),
    countFailure: attempt?.afterCommit('a counted failure', count) ?? count,
    countWrongFactor: attempt?.afterCommit('a counted failure', countFactor) ?? countFactor,
  };
}

async function readOnly(): Promise<never> {
  throw forbidden('A list writes nothing');
}

function toKept(reply: Reply<unknown>): Kept<unknown> | undefined {
  if (reply === undefined) return undefined;
  return isKept(reply) ? reply : serialise(reply);
}

/** Whether the answer shows the object that the path names in a state that is not stored yet. */
function changes(it: ReadonlyResource<ResourceKind> | undefined, json: string): boolean {
  const answer: unknown = JSON.parse(json);
  if (it === undefined || typeof answer !== 'object' || answer === null) return false;
  if (!('id' in answer) || answer.id !== it.meta.id || !('updated_at' in answer)) return false;
  return answer.updated_at !== it.meta.updatedAt;
}

/**
 * Waits until the objects of the answer are settled or failed, and returns their state at that time. The change itself is stored
 * already: a replica that can no longer follow the store returns the answer as it was.
 */
async function settle(
  services: Services,
  routed: RoutedRequest,
  endpoint: Endpoint,
  answer: Kept<unknown> | undefined,
  seconds: number,
): Promise<Kept<unknown> | undefined> {
  const { settle: by } = endpoint;
  if (by === undefined || answer === undefined) return answer;
  const value: unknown = JSON.parse(answer.json);
  const { view, tenant, params } = routed;
  const ids = Array.isArray(value) ? value.flatMap(idOf) : idOf(value);
  const named = endpoint.on && params.get(endpoint.on[1]);
  if (ids.length === 0 && named !== undefined) ids.push(named.toLowerCase());
  if (ids.length === 0) return answer;
  try {
    await services.fresh();
  } catch (error) {
    if (toApiError(error)?.status !== 503) throw error;
    return answer;
  }
  const isSettled = (): boolean => ids.every((id) => by.isSettled(view, id));
  await untilSettled(services, tenant, isSettled, seconds * 1000, routed.signal());
  const settled = ids.flatMap((id) => by.answer({ view, keep: services.keep }, id) ?? []);
  if (settled.length < ids.length) return answer;
  return Array.isArray(value) ? serialise(settled.map(({ json }): unknown => JSON.parse(json))) : settled[0];
}

function idOf(value: unknown): string[] {
  return typeof value === 'object' && value !== null && 'id' in value && typeof value.id === 'string' ? [value.id] : [];
}
