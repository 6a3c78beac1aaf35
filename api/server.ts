import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import type { Duplex } from 'node:stream';
import express from 'express';
import type { RequestHandler } from 'express';
import type { ApplyCommit } from '../store/declared/commit.ts';
import { isUnavailable } from '../store/errors.ts';
import { createFirstTenant } from '../store/tenants.ts';
import { badRequest, serviceUnavailable, unexpected } from './ground/api-error.ts';
import { createAuditLog } from './audit/audit-log.ts';
import { createKeyUse } from './auth/key-use.ts';
import { createLoginThrottle } from './auth/login-throttle.ts';
import { createPasswords } from './auth/passwords.ts';
import { createSetupToken } from './auth/setup-token.ts';
import type { SetupToken } from './auth/setup-token.ts';
import { createRefusals } from './webhooks/refusals.ts';
import { createShortSecrets } from './auth/short-secrets.ts';
import { createKeyPairs } from './ssh-keys/key-pairs.ts';
import { createStreamTickets, forgetExpiredTickets } from './auth/stream-tickets.ts';
import { createTerminalSessions, forgetExpiredTerminals } from './rights/terminal-sessions.ts';
import { createTokens } from './auth/tokens.ts';
import { createBudgets } from './budgets/budgets.ts';
import { watchCapacity } from './budgets/capacity.ts';
import { createClientAddress } from './http/client-address.ts';
import type { ApiError } from './ground/api-error.ts';
import type { ApiDependencies, RequestInfo } from './ground/dependencies.ts';
import { commitApplier } from './request/apply-commit.ts';
import { createDispatch } from './request/dispatch.ts';
import { endpoints } from './routes/endpoints.ts';
import { createNearness } from './endpoint/nearness.ts';
import { createHttpServer, drain } from './http/http-server.ts';
import { isKnownHost } from './http/known-host.ts';
import { createRequestLog } from './request/http-metrics.ts';
import { forgetExpiredAnswers, forgetExpiredEveryMs } from './request/idempotency.ts';
import { createInTurn } from './endpoint/in-turn.ts';
import { createKeep } from './ground/cached-json.ts';
import { createPageCache } from './request/page-cache.ts';
import { agentReleases } from './ground/agent-release.ts';
import type { AgentReleases } from './ground/agent-release.ts';
import { createReadiness } from './pages/readiness.ts';
import { createRateLimit } from './http/rate-limit.ts';
import { errorBody, securityHeaders, sendBody } from './http/respond.ts';
import type { Headers } from './http/respond.ts';
import { createRouter } from './request/router.ts';
import { answerRaw } from './http/raw-answer.ts';
import { checkResources } from './routes/check-resources.ts';
import { resources } from './resources/resources.ts';
import { OpenStreams } from './streams/open-streams.ts';
import { streams } from './streams/streams.ts';
import { createSystemPages, sendNoSuchPage } from './pages/system-pages.ts';

/** The API. Disposing drains it: it refuses new connections and answers the requests under way. */
export interface Api extends AsyncDisposable {
  /** The server, which does not listen yet: the program that starts it chooses the address and attaches upgrades. */
  readonly server: Server;
  /** Takes an upgrade request for a stream of a tenant; returns `false` for any other. */
  handleUpgrade(request: IncomingMessage, socket: Duplex, head: Buffer): boolean;
  /** What the first user of a tenant must present. */
  readonly setupToken: SetupToken;
  /** The release of the agent that this replica serves. */
  readonly releases: AgentReleases;
  /** Plans and applies the commits of syncs. */
  readonly applyCommit: ApplyCommit;
}

/**
 * Builds the API; afterwards a tenant and the signing keys exist. `pages` answers requests that are for no tenant and
 * not for the API's own pages, such as those of the console. @throws Error if a route has no permission, or a kind is
 * declared by half.
 */
export async function createApi(deps: ApiDependencies & { pages?: RequestHandler }): Promise<Api> {
  const { store, mirror, clock, config, log } = deps;
  const match = createRouter(endpoints);
  checkResources({ resources, endpoints });
  await createFirstTenant(store, clock);
  await mirror.ready;
  await using building = new AsyncDisposableStack();
  const tokens = building.adopt(await createTokens(deps), (it) => it.close());
  const shortSecrets = await createShortSecrets(deps);
  const capacity = watchCapacity({ store, clock, log });
  await capacity.look();
  const services = {
    ...deps,
    tokens,
    passwords: createPasswords(),
    keyPairs: createKeyPairs(clock),
    throttle: createLoginThrottle(clock),
    shortSecrets,
    setupToken: createSetupToken(config, shortSecrets),
    tickets: createStreamTickets(deps),
    terminals: createTerminalSessions(deps),
    codeRate: createRateLimit(config.codeRateLimit, clock),
    keyUsed: createKeyUse(clock),
    webhookRefused: createRefusals(clock, (tenant) => deps.repositoryFor(tenant)),
    keep: createKeep(),
    audit: building.use(createAuditLog(deps)),
    budgets: building.use(createBudgets({ mirror, clock, capacity, buildDeadlineMs: config.buildDeadlineMs })),
    inTurn: createInTurn(),
    ...createNearness(store, mirror, clock),
    pageCache: createPageCache(),
    releases: agentReleases(config.agentRelease, log),
  };
  await services.fresh();
  const rateLimit = createRateLimit(config.rateLimit, clock);
  const dispatch = createDispatch({
    services,
    match,
    rateLimit,
    heavyRateLimit: createRateLimit(config.heavyRateLimit, clock),
    answered: createRequestLog(deps.registry, log),
  });
  let isDraining = false;
  const readiness = createReadiness({ ...deps, fresh: services.fresh, isDraining: () => isDraining });
  const systemPage = createSystemPages({ ...deps, releases: services.releases, readiness });
  const describe = createDescription(deps);

  const anonymousHeaders = (): Headers => ({
    ...securityHeaders,
    'x-service-version': config.version,
    ...(config.publicUrl.startsWith('https:') && { 'strict-transport-security': 'max-age=31536000' }),
    ...(isDraining && { connection: 'close' }),
  });
  const headersOf = (info: RequestInfo): Headers => ({ ...anonymousHeaders(), 'x-request-id': info.id });
  const answer = async (request: IncomingMessage, response: ServerResponse, next: () => void): Promise<void> => {
    const info = describe(request);
    const headers = headersOf(info);
    if (request.headers.host === undefined && request.httpVersion === '1.1') {
      sendBody(
        response,
        400,
        { ...headers, connection: 'close' },
        errorBody(badRequest('Request must have a Host header'), info.id),
      );
      return;
    }
    if (!isLifeSign(request) && !isKnownHost(config.allowedHosts, request)) {
      sendBody(response, 400, headers, errorBody(unknownHost(request), info.id));
      return;
    }
    const page = systemPage(request);
    if (page !== undefined) await page(response, headers, info.id);
    else if (isOfTenant(request.url)) await dispatch(request, response, info, headers);
    else if (deps.pages === undefined) sendNoSuchPage(response, headers, info.id);
    else {
      for (const [name, value] of Object.entries(headers)) response.setHeader(name, value);
      next();
    }
  };

  const app = express();
  app.disable('x-powered-by').disable('etag').set('query parser', false);
  app.use(answer);
  if (deps.pages !== undefined) app.use(deps.pages);
  app.use((_request, response) => sendNoSuchPage(response, {}, String(response.getHeader('x-request-id') ?? '')));
  app.use((error: unknown, request: IncomingMessage, response: ServerResponse, _next: () => void) => {
    const info = describe(request);
    log.error({ err: error, request: info.id }, 'page failed');
    if (response.headersSent) response.destroy();
    else sendBody(response, 500, headersOf(info), errorBody(unexpected(), info.id));
  });
  const server = createHttpServer(app, () => ({ ...anonymousHeaders(), 'x-request-id': deps.random.id() }));

  building.adopt(forgetExpired(deps), (end) => end());
  building.defer(() => drain(server, config.drainMs, clock));
  const streaming = building.use(new OpenStreams(services, streams, rateLimit));
  building.defer(() => {
    isDraining = true;
  });
  const running = building.move();
  return {
    server,
    setupToken: services.setupToken,
    releases: services.releases,
    applyCommit: commitApplier(services),
    handleUpgrade(request, socket, head) {
      if (!/^\/[^/?]+\/ws\//.test(request.url ?? '')) return false;
      const info = describe(request);
      if (isDraining) answerRaw(socket, serviceUnavailable('This replica is closing'), info.id, headersOf(info));
      else if (!isKnownHost(config.allowedHosts, request))
        answerRaw(socket, unknownHost(request), info.id, headersOf(info));
      else void streaming.upgrade(request, socket, head, info, headersOf(info));
      return true;
    },
    [Symbol.asyncDispose]: () => running.disposeAsync(),
  };
}

function unknownHost({ headers: { host = '' } }: IncomingMessage): ApiError {
  return badRequest(
    `The request is for ${host.slice(0, 100)}, which is not a name of this installation: use the address of --public-url, or name it in --allowed-hosts`,
  );
}

/** Health probes may use any host name. */
function isLifeSign({ url }: IncomingMessage): boolean {
  return url === '/healthz' || url === '/readyz';
}

function isOfTenant(url: string | undefined): boolean {
  return /^\/[^/?]+\/api\/v1(\/|\?|$)/.test(url ?? '');
}

/** Describes where a request comes from. The client's own request id is used if it is harmless. */
function createDescription({ config, random }: ApiDependencies): (request: IncomingMessage) => RequestInfo {
  const addressOf = createClientAddress(config.trustedProxies);
  return (request) => {
    const own = request.headers['x-request-id'];
    return {
      id: typeof own === 'string' && /^[\w.-]{1,64}$/.test(own) ? own : random.id(),
      address: addressOf(request),
      userAgent: (request.headers['user-agent'] ?? '').slice(0, 200),
      isKeyed: request.headers['idempotency-key'] !== undefined,
    };
  };
}

/** Deletes expired answers, tickets and terminals periodically, until the returned function is called. */
function forgetExpired(deps: ApiDependencies): () => void {
  let cancel = (): void => undefined;
  const again = (): void => {
    cancel = deps.clock.timer(forgetExpiredEveryMs, () => {
      Promise.all([forgetExpiredAnswers(deps), forgetExpiredTickets(deps), forgetExpiredTerminals(deps)])
        .catch((error: unknown) => {
          if (!isUnavailable(error))
            deps.log.error({ err: error }, 'cannot forget expired answers, tickets and terminals');
        })
        .finally(again);
    });
  };
  again();
  return () => cancel();
}
