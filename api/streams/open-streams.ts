import type { IncomingMessage } from 'node:http';
import type { Duplex } from 'node:stream';
import { Gauge } from 'prom-client';
import { WebSocketServer } from 'ws';
import type { WebSocket } from 'ws';
import { isUnavailable } from '../../store/errors.ts';
import { isOpenTenant } from '../../store/tenants.ts';
import { isDeleting } from '../../store/resource.ts';
import type { ReadonlyResource } from '../../store/resource.ts';
import {
  badRequest,
  forbidden,
  notFound,
  serviceUnavailable,
  tooMany,
  unauthorized,
  unexpected,
} from '../ground/api-error.ts';
import { mention } from '../../store/audit/mention.ts';
import type { Asked } from '../audit/audit-log.ts';
import { authenticate, byToken } from '../auth/authenticate.ts';
import type { Principal } from '../auth/principal.ts';
import { isTicketForm } from '../auth/stream-tickets.ts';
import { authorize } from '../rights/authorize.ts';
import type { Access, Place } from '../rights/authorize.ts';
import type { Services } from '../endpoint/context.ts';
import type { RequestInfo } from '../ground/dependencies.ts';
import type { ResourceKind } from '../resources/resources.ts';
import { parseKnown } from '../http/known-query.ts';
import { permissionOf } from '../rights/permissions.ts';
import type { Permission } from '../rights/permissions.ts';
import type { Headers } from '../http/respond.ts';
import { loadSubject, projectIdOf, tenantPlace } from '../endpoint/subject.ts';
import { keyOfUser } from '../http/rate-limit.ts';
import type { Quota } from '../http/rate-limit.ts';
import { toApiError } from '../http/to-api-error.ts';
import { Audience } from './audience.ts';
import { ChangeFeed } from './change-feed.ts';
import { Channel } from './channel.ts';
import { closeCode } from './close-code.ts';
import { LogHub } from './log-hub.ts';
import { SampleHub } from './sample-hub.ts';
import type { ServerSample } from '../../agent-protocol/metrics.ts';
import type { TrafficSample } from '../../agent-protocol/traffic.ts';
import { answerRaw } from '../http/raw-answer.ts';
import type { Stream, StreamContext, StreamInput } from './stream.ts';

const maxPayload = 64 * 1024;

interface StreamRoute {
  stream: Stream;
  permission: Permission;
  /** The path, with its parameters as named groups. */
  form: RegExp;
}

/** The result of the checks before the upgrade. */
interface Admission {
  stream: Stream;
  ctx: StreamContext;
  permission: Permission;
  it: ReadonlyResource<ResourceKind> | undefined;
  params: ReadonlyMap<string, string>;
  query: unknown;
  place: () => Place | undefined;
}

/** Opens streams for requests that ask for a WebSocket. Disposing closes all of them. */
export class OpenStreams implements Disposable {
  readonly #services: Services;
  readonly #rateLimit: (key: string) => Quota | undefined;
  readonly #routes: readonly StreamRoute[];
  readonly #sockets = new WebSocketServer({
    noServer: true,
    maxPayload,
    perMessageDeflate: false,
    clientTracking: false,
  });
  readonly #audience: Audience;
  readonly #feed: ChangeFeed;
  readonly #hub: LogHub;
  readonly #samples: SampleHub<ServerSample>;
  readonly #traffic: SampleHub<TrafficSample>;
  /** Headers of the 101 answer to a request. */
  readonly #headers = new WeakMap<IncomingMessage, Headers>();

  /** @throws Error for a stream without a row of permissions */
  constructor(services: Services, streams: readonly Stream[], rateLimit: (key: string) => Quota | undefined) {
    this.#services = services;
    this.#rateLimit = rateLimit;
    this.#routes = streams.map((stream) => ({
      stream,
      permission: permissionOf('WS', stream.path),
      form: new RegExp(`^${stream.path.replaceAll(/:([A-Za-z]+)/g, '(?<$1>[^/]+)')}$`),
    }));
    this.#audience = new Audience(services.mirror, services.clock);
    this.#feed = new ChangeFeed(services.store, services.mirror, services.keep);
    this.#hub = new LogHub(services);
    const { agents } = services;
    this.#samples = new SampleHub({
      ...services,
      samples: ({ tenant, server }, options) => agents.samples(tenant, server, options),
    });
    this.#traffic = new SampleHub({
      ...services,
      samples: ({ tenant, server, id }, options) => agents.traffic(tenant, server, id, options),
    });
    this.#sockets.on('headers', (lines, request) => {
      for (const [name, value] of Object.entries(this.#headers.get(request) ?? {})) lines.push(`${name}: ${value}`);
    });
    this.#sockets.on('wsClientError', (error, socket, request) => {
      const headers = this.#headers.get(request) ?? {};
      const refusal = badRequest(`Handshake of a WebSocket must be by RFC 6455: ${error.message}`);
      answerRaw(socket, refusal, String(headers['x-request-id'] ?? ''), headers);
    });
    const audience = this.#audience;
    new Gauge({
      name: 'setpoint_streams_open',
      help: 'Open streams of users',
      registers: [services.registry],
      collect() {
        this.set(audience.size);
      },
    });
  }

  /** Checks the request before the 101; a refusal is answered in the envelope. `headers` are sent with both. */
  async upgrade(
    request: IncomingMessage,
    socket: Duplex,
    head: Buffer,
    info: RequestInfo,
    headers: Headers,
  ): Promise<void> {
    // the peer may disconnect before it is answered
    const ignore = (): void => undefined;
    socket.on('error', ignore);
    try {
      const admission = await this.#admit(request, info);
      if (socket.destroyed) return;
      socket.off('error', ignore);
      this.#headers.set(request, headers);
      this.#sockets.handleUpgrade(request, socket, head, (webSocket) => this.#open(webSocket, admission));
    } catch (error) {
      const known = toApiError(error);
      if (known === undefined) this.#services.log.error({ err: error, request: info.id }, 'stream failed to open');
      answerRaw(socket, known ?? unexpected(), info.id, headers);
    }
  }

  [Symbol.dispose](): void {
    this.#audience[Symbol.dispose]();
    this.#feed[Symbol.dispose]();
    this.#sockets.close();
  }

  async #admit(request: IncomingMessage, info: RequestInfo): Promise<Admission> {
    const services = this.#services;
    const url = new URL(request.url ?? '/', 'http://localhost');
    const [, tenant = '', path = ''] = /^\/([^/]+)(\/ws\/.*)$/.exec(url.pathname) ?? [];
    if (!services.mirror.isReady) throw serviceUnavailable('This replica is starting');
    await services.fresh();
    if (!isOpenTenant(services.mirror, tenant)) throw notFound('Tenant');
    const found = this.#match(path);
    if (found === undefined) throw notFound('Stream');
    this.#checkOrigin(request);
    const view = services.mirror.tenant(tenant);
    const token = url.searchParams.get('token');
    url.searchParams.delete('token');
    const proving = { tokens: services.tokens, view, clock: services.clock };
    const prove = (): Promise<Principal | undefined> => {
      if (token === null) return authenticate(request.headers, proving);
      return isTicketForm(token) ? services.tickets.redeem(view, token, path) : byToken(token, proving);
    };
    const principal = await prove();
    if (principal === undefined) throw unauthorized();
    const { retryAfter } = this.#rateLimit(keyOfUser(tenant, principal.user.meta.id)) ?? {};
    if (retryAfter !== undefined) throw tooMany('Too many requests', retryAfter);
    const { stream, permission, params } = found;
    const it = stream.on === undefined ? undefined : loadSubject(stream.on, params, view);
    const place = (): Place | undefined => placeOf(view, it);
    const now = place();
    if (now === undefined) throw notFound('Stream');
    const access = await this.#authorize({ tenant, view, principal, stream, request: info }, permission, now, it);
    const query = parseKnown(stream.query, Object.fromEntries(url.searchParams));
    const hubs = { feed: this.#feed, hub: this.#hub, samples: this.#samples, traffic: this.#traffic };
    const ctx: StreamContext = { ...services, tenant, view, principal, access, request: info, ...hubs };
    // the cast is safe: a stream without `on` does not read `it`
    stream.check?.(ctx, { it: it as ReadonlyResource<ResourceKind>, query });
    return { stream, ctx, permission, it, params, query, place };
  }

  /** Authorizes the reader; a refusal is in the audit log. */
  async #authorize(
    {
      stream,
      principal,
      ...asked
    }: Pick<Asked, 'tenant' | 'view' | 'request'> & { stream: Stream; principal: Principal },
    permission: Permission,
    place: Place,
    it: ReadonlyResource<ResourceKind> | undefined,
  ): Promise<Access> {
    try {
      return authorize(principal, permission, place);
    } catch (error) {
      const projectId = it && projectIdOf(it);
      await this.#services.audit.deny(
        {
          ...asked,
          caller: principal,
          route: `WS ${stream.path}`,
          ...(projectId !== undefined && { projectId }),
        },
        'refused',
        it === undefined ? [] : [mention(it)],
      );
      throw error;
    }
  }

  #match(path: string): { stream: Stream; permission: Permission; params: ReadonlyMap<string, string> } | undefined {
    for (const { stream, permission, form } of this.#routes) {
      const groups = form.exec(path)?.groups;
      if (groups !== undefined || form.test(path))
        return { stream, permission, params: new Map(Object.entries(groups ?? {})) };
    }
    return undefined;
  }

  /** Refuses a socket that a page of another origin opens, even with a token; only browsers send an origin. */
  #checkOrigin(request: IncomingMessage): void {
    const { origin, host } = request.headers;
    if (origin === undefined) return;
    if (!URL.canParse(origin)) throw badRequest('Origin must be an address');
    const { publicUrl } = this.#services.config;
    if (new URL(origin).host !== host && new URL(publicUrl).origin !== origin)
      throw forbidden('Origin is not one of this installation');
  }

  #open(socket: WebSocket, { stream, ctx, permission, it, params, query, place }: Admission): void {
    const { tenant, principal, view, clock, log, config } = ctx;
    const channel = new Channel(socket, clock, { reads: stream.reads === true });
    const most = config.streamsPerUser;
    if (most > 0 && this.#audience.countOf(tenant, principal) >= most) {
      channel.close(closeCode.tooMany, 'too many streams');
      return;
    }
    const seat = { tenant, view, principal, permission, about: idsAbout(it), place, channel };
    this.#audience.add(seat);
    const rest: StreamInput<ResourceKind, unknown>['rest'] = ({ permission: needed, it: on }) => {
      this.#audience.judge(
        Object.assign(seat, { permission: needed, about: idsAbout(on), place: () => livePlaceOf(view, on) }),
      );
    };
    // the cast is safe as in `#admit`
    stream.run(ctx, { it: it as ReadonlyResource<ResourceKind>, params, query, channel, rest }).then(
      (reason) => channel.close(closeCode.ended, reason),
      (error: unknown) => {
        if (isUnavailable(error)) {
          log.warn({ err: error, stream: stream.path }, 'Closed a stream, as the store does not answer');
          channel.close(closeCode.away, 'the store does not answer: try again');
          return;
        }
        log.error({ err: error, stream: stream.path }, 'stream failed');
        channel.close(closeCode.internal, 'failed');
      },
    );
  }
}

/** The place of an object; `undefined` also while it, or its project, is being deleted. */
function livePlaceOf(view: StreamContext['view'], it: ReadonlyResource<ResourceKind>): Place | undefined {
  const place = placeOf(view, it);
  const now = view.get(it.meta.kind, it.meta.id);
  const isLive = [now, place?.project].every((one) => one === undefined || !isDeleting(one));
  return isLive ? place : undefined;
}

function idsAbout(it: ReadonlyResource<ResourceKind> | undefined): Set<string> {
  return new Set(it === undefined ? [] : [it.meta.id, projectIdOf(it) ?? it.meta.id]);
}

function placeOf(view: StreamContext['view'], it: ReadonlyResource<ResourceKind> | undefined): Place | undefined {
  if (it === undefined) return { tenant: view };
  if (view.get(it.meta.kind, it.meta.id) === undefined) return undefined;
  const projectId = projectIdOf(it);
  if (projectId === undefined) return tenantPlace(view, it);
  const project = view.get('project', projectId);
  return project && { tenant: view, project };
}
