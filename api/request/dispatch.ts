import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from 'node:http';
import { isOpenTenant, openTenantGuard } from '../../store/tenants.ts';
import { guardEveryUnit } from './guard-every-unit.ts';
import { badRequest, notFound, serviceUnavailable, tooMany, unauthorized, unexpected } from '../ground/api-error.ts';
import { authenticate } from '../auth/authenticate.ts';
import { principalId } from '../auth/principal.ts';
import type { Principal } from '../auth/principal.ts';
import type { RoutedRequest, Outcome } from './routed-request.ts';
import type { Services } from '../endpoint/context.ts';
import type { RequestInfo } from '../ground/dependencies.ts';
import { isDownload, routeName } from '../endpoint/endpoint.ts';
import type { AnsweredRequest } from './http-metrics.ts';
import { readJsonBody } from '../http/json-body.ts';
import { packed, takesGzip } from '../http/packed.ts';
import { knownToLeader } from './known-to-leader.ts';
import type { PageCache } from './page-cache.ts';
import { keyOfUser } from '../http/rate-limit.ts';
import type { Quota } from '../http/rate-limit.ts';
import { readRaw } from '../http/raw-body.ts';
import { passBy } from '../http/pass-by.ts';
import { errorBody, sendBeforeEnd, sendBody, sendNothing } from '../http/respond.ts';
import type { Headers } from '../http/respond.ts';
import { isPublic } from '../rights/permissions.ts';
import type { Match, Route } from './router.ts';
import { beginsFromMirror, judgeFirst, runEndpoint, takesBody } from './run-endpoint.ts';
import { toApiError } from '../http/to-api-error.ts';
import { readUpload } from '../http/upload.ts';
import { hasForm, openUpload } from '../http/streamed-upload.ts';
import type { Clock } from '../../time/clock.ts';

/** What the dispatcher needs besides the services. */
export interface Dispatching {
  services: Services & { pageCache: PageCache };
  match(method: string, path: string): Match | undefined;
  rateLimit: (key: string) => Quota | undefined;
  heavyRateLimit: (key: string) => Quota | undefined;
  answered(request: AnsweredRequest): void;
}

/** What is known of a request so far, while it is answered. */
interface Progress {
  tenant?: string;
  match?: Match;
  caller?: Principal;
  quota?: Quota;
}

/** Most bytes of a JSON body; it is held in memory. An unauthenticated client gets less. */
const maxBytes = { ofAnybody: 16 * 1024, ofUsers: 1024 * 1024 } as const;

const address = /^\/([^/]+)\/api\/v1(\/.*)?$/;

/**
 * Answers one request of the REST API, always in the envelope. The order is: tenant, route, caller, rate, body, rights,
 * handler. `headers` are those of every answer; it adds its own.
 */
export function createDispatch(
  deps: Dispatching,
): (request: IncomingMessage, response: ServerResponse, info: RequestInfo, headers: Headers) => Promise<void> {
  const { services } = deps;
  return async (request, response, info, headers) => {
    const started = services.clock.monotonic();
    const progress: Progress = {};
    let status = 500;
    try {
      const outcome = await answer(deps, request, response, info, progress);
      ({ status } = outcome);
      addQuota(headers, progress.quota);
      if (outcome.etag !== undefined) headers['etag'] = outcome.etag;
      Object.assign(headers, outcome.headers);
      if (outcome.body === undefined) sendNothing(response, status, headers);
      else sendBody(response, status, headers, await formOf(outcome, outcome.body, request, headers), outcome.type);
    } catch (error) {
      addQuota(headers, progress.quota);
      ({ status } = sendError(deps, request, response, error, info, headers));
    }
    deps.answered({
      id: info.id,
      method: request.method ?? '',
      route: progress.match === undefined ? 'unknown' : routeName(progress.match.route.endpoint),
      status,
      ms: services.clock.monotonic() - started,
      tenant: progress.tenant,
      caller: progress.caller && principalId(progress.caller),
    });
  };
}

/** The body as it is sent. What has an ETag is sent as it is: that names these bytes. */
async function formOf(
  { etag, type }: Outcome,
  body: string | Buffer,
  request: IncomingMessage,
  headers: Headers,
): Promise<string | Buffer> {
  if (etag !== undefined || type !== undefined || request.method === 'HEAD' || !takesGzip(request.headers)) return body;
  const form = await packed(body);
  if (form === undefined) return body;
  headers['content-encoding'] = 'gzip';
  headers['vary'] = 'accept-encoding';
  return form;
}

async function answer(
  deps: Dispatching,
  request: IncomingMessage,
  response: ServerResponse,
  info: RequestInfo,
  progress: Progress,
): Promise<Outcome> {
  const { services } = deps;
  const { path: url, search } = split(request.url ?? '/');
  const [, tenant, path = '/'] = address.exec(url) ?? [];
  if (tenant === undefined) throw notFound('Route');
  if (!services.mirror.isReady) throw serviceUnavailable('This replica is starting');
  const method = request.method === 'HEAD' ? 'GET' : (request.method ?? '');
  const match = deps.match(method, path);
  const view = services.mirror.tenant(tenant);
  const isOpen = (): boolean => isOpenTenant(services.mirror, tenant);
  const authenticated = async (): Promise<Principal | undefined> => {
    if (match === undefined || !isOpen()) return undefined;
    return authenticate(request.headers, { tokens: services.tokens, view, clock: services.clock });
  };
  const isFromMirror = match !== undefined && beginsFromMirror(match.route);
  await (isFromMirror ? services.near() : services.fresh());
  let caller = await authenticated();
  if (isFromMirror && caller === undefined) {
    await services.fresh();
    caller = await authenticated();
  }
  if (!isOpen()) throw notFound('Tenant');
  progress.tenant = tenant;
  if (match === undefined) throw notFound('Route');
  progress.match = match;
  if (caller !== undefined) progress.caller = caller;
  takeToken(deps, match, payerOf(tenant, match.route, caller, info), progress);
  if (caller === undefined && !isPublic(match.route.permission)) throw unauthorized(misplacedKey(request.headers));
  const repo = guardEveryUnit(knownToLeader(services.repositoryFor(tenant), view, services.otherLeader), () => {
    const guard = openTenantGuard(services.mirror, tenant);
    if (guard === undefined) throw notFound('Tenant');
    return guard;
  });
  if (caller?.by.type === 'key') services.keyUsed(caller.by.key, repo);
  const { route, params } = match;
  const routed: RoutedRequest = {
    tenant,
    view,
    repo,
    route,
    params,
    path,
    search,
    headers: request.headers,
    body: undefined,
    request: info,
    caller,
    signal: goneSignal(response),
  };
  // a file is not read from a caller who may not upload it
  if (takesFile(route)) await judgeFirst(services, routed);
  return runEndpoint(services, { ...routed, body: await readBody(request, route, services.clock) });
}

/**
 * The key that a request counts under: the user for any credential, so that many keys give no more requests. A public
 * route, such as a login, counts by address: a credential that is sent along proves nothing about the request.
 */
function payerOf(
  tenant: string,
  { permission }: Route,
  caller: Principal | undefined,
  { address: from }: RequestInfo,
): string {
  return caller === undefined || isPublic(permission) ? `${tenant} ${from}` : keyOfUser(tenant, caller.user.meta.id);
}

function takesFile({ endpoint }: Route): boolean {
  return endpoint.upload !== undefined || endpoint.streamed !== undefined;
}

/** Reads what the endpoint takes: no body, a form with a file, or JSON. @throws ApiError BAD_REQUEST */
async function readBody(request: IncomingMessage, { endpoint, permission }: Route, clock: Clock): Promise<unknown> {
  if (endpoint.list || isDownload(endpoint) || !takesBody(endpoint)) return undefined;
  if (endpoint.raw !== undefined) return readRaw(request, endpoint.raw.maxBytes);
  if (endpoint.upload !== undefined) return readUpload(request, endpoint.upload.maxBytes);
  if (endpoint.streamed !== undefined && hasForm(request)) return openUpload(request, { ...endpoint.streamed, clock });
  return readJsonBody(request, isPublic(permission) ? maxBytes.ofAnybody : maxBytes.ofUsers);
}

/** @throws ApiError TOO_MANY_REQUESTS */
function takeToken(deps: Dispatching, { route: { endpoint } }: Match, key: string, progress: Progress): void {
  const isHeavy = !endpoint.list && endpoint.heavy === true;
  for (const limit of isHeavy ? [deps.rateLimit, deps.heavyRateLimit] : [deps.rateLimit]) {
    const quota = limit(key);
    if (quota === undefined) continue;
    progress.quota = quota;
    if (quota.retryAfter !== undefined) throw tooMany('Too many requests', quota.retryAfter);
  }
}

function split(url: string): { path: string; search: string } {
  const at = url.indexOf('?');
  const raw = at === -1 ? url : url.slice(0, at);
  try {
    return { path: decodeURI(raw), search: at === -1 ? '' : url.slice(at + 1) };
  } catch {
    throw badRequest('Address must be percent-encoded UTF-8');
  }
}

/** A signal that aborts when the client disconnects; it is made at the first call. */
function goneSignal(response: ServerResponse): () => AbortSignal {
  let gone: AbortController | undefined;
  return () => {
    if (gone === undefined) {
      const made = new AbortController();
      response.once('close', () => made.abort());
      if (response.destroyed) made.abort();
      gone = made;
    }
    return gone.signal;
  };
}

function addQuota(headers: Headers, quota: Quota | undefined): void {
  if (quota === undefined) return;
  headers['ratelimit-limit'] = quota.limit;
  headers['ratelimit-remaining'] = quota.remaining;
  headers['ratelimit-reset'] = quota.reset;
}

function sendError(
  { services: { log, clock } }: Dispatching,
  request: IncomingMessage,
  response: ServerResponse,
  error: unknown,
  info: RequestInfo,
  headers: Headers,
): { status: number } {
  const known = toApiError(error);
  const sent = known ?? unexpected();
  if (known === undefined) log.error({ err: error, request: info.id }, 'request failed');
  else if (sent.status === 503) log.warn({ err: error, request: info.id }, 'request refused');
  if (response.headersSent) {
    response.destroy();
    return { status: sent.status };
  }
  if (sent.retryAfter !== undefined) headers['retry-after'] = sent.retryAfter;
  if (sent.code === 'UNAUTHORIZED') headers['www-authenticate'] = 'Bearer';
  const body = errorBody(sent, info.id);
  if (request.complete) sendBody(response, sent.status, headers, body);
  else sendBeforeEnd(response, sent.status, headers, body, passBy(request, clock));
  return { status: sent.status };
}

/** The hint for a client that sends a service key as a bearer token. */
function misplacedKey({ authorization }: IncomingHttpHeaders): string | undefined {
  if (authorization === undefined || !/^bearer sp_/i.test(authorization)) return undefined;
  return 'A service key is sent in the header x-service-key, not as a bearer token';
}
