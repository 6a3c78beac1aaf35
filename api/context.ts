import type { Logger } from 'pino';
import type { Registry } from 'prom-client';
import type { Clock } from '../store/clock.ts';
import type { Mirror, TenantView } from '../store/mirror.ts';
import type { Repository, Unit } from '../store/repo.ts';
import type { ReadonlyResource } from '../store/resource.ts';
import type { Sealer, Unsealer } from '../store/seal.ts';
import type { Store } from '../store/store.ts';
import type { Agents } from './agents.ts';
import type { AuditLog } from './audit/audit-log.ts';
import type { Passwords } from './auth/passwords.ts';
import type { JudgedCode } from './auth/login-codes.ts';
import type { LoginThrottle } from './auth/login-throttle.ts';
import type { Principal } from './auth/principal.ts';
import type { SetupToken } from './auth/setup-token.ts';
import type { ShortSecrets } from './auth/short-secrets.ts';
import type { StreamTickets } from './auth/stream-tickets.ts';
import type { Tokens } from './auth/tokens.ts';
import type { Access } from './authorize.ts';
import type { Budgets } from './budgets/budgets.ts';
import type { ApiConfig } from './config.ts';
import type { Reply } from './endpoint.ts';
import type { InTurn } from './in-turn.ts';
import type { Keep } from './kept.ts';
import type { Mailer } from './mailer.ts';
import type { Random } from './random.ts';
import type { Quota } from './rate-limit.ts';
import type { RequestRepository } from './request-repository.ts';

/** What the interface is given by whoever starts it. */
export interface ApiDependencies {
  store: Store;
  mirror: Mirror;
  repositoryFor(tenant: string): Repository;
  sealer: Sealer;
  unsealer: Unsealer;
  agents: Agents;
  mailer: Mailer;
  clock: Clock;
  random: Random;
  log: Logger;
  registry: Registry;
  config: ApiConfig;
}

/** What every request shares. */
export interface Services extends ApiDependencies {
  tokens: Tokens;
  passwords: Passwords;
  throttle: LoginThrottle;
  shortSecrets: ShortSecrets;
  setupToken: SetupToken;
  tickets: StreamTickets;
  /** Takes a token of a client that asks for codes. */
  codeRate(address: string): Quota | undefined;
  keep: Keep;
  audit: AuditLog;
  budgets: Budgets;
  /** Lets writers of one object go one after another. */
  inTurn: InTurn;
  /** Notes that a service key was used. */
  keyUsed(key: ReadonlyResource<'service_key'>, repo: Repository): void;
  /** Resolves when the mirror shows everything that was committed before the call. @throws ApiError 503 after 2 s. */
  fresh(): Promise<void>;
}

/** Where a request came from. */
export interface RequestInfo {
  id: string;
  /** Address of the client, IPv6 by /64; behind trusted proxies the first that is not one of them. */
  address: string;
  userAgent: string;
  /** The client told a retry of the same request from a second one. */
  isKeyed: boolean;
}

/**
 * What handlers and streams have of the services. It holds nothing that sends a transaction, so that code which gets only
 * this cannot write past the audit log: that would not compile.
 */
export interface ReadingServices extends Omit<Services, 'store' | 'repositoryFor'> {
  store: Pick<Store, 'incarnation' | 'get' | 'list'>;
}

/** What a handler may use. */
export interface RequestContext extends ReadingServices {
  tenant: string;
  repo: RequestRepository;
  view: TenantView;
  request: RequestInfo;
  /** Parameters of the path, as they were sent. */
  params: ReadonlyMap<string, string>;
  access: Access;
  /** Aborts when the client goes away. */
  signal: () => AbortSignal;
  /** Who asks; not to be looked at by a public route. */
  principal: Principal;
  /** The caller of a public route, if it presented a valid credential. */
  caller: Principal | undefined;
  /**
   * The only way for a handler to write: the audit record of what the unit does joins its transaction.
   *
   * Commits the unit and answers with what `answer` makes of its objects; with an `Idempotency-Key` the answer is
   * recorded in the same transaction, for which `answer` is called before it too. @throws conflict, after which the whole request is tried again; ApiError CONFLICT
   * for a name that is taken.
   */
  commit<T>(unit: Unit, answer: () => Reply<T>): Promise<Reply<T>>;
  /** Notes a wrong guess at a code. It has no audit record of its own: the login that failed has. @throws conflict */
  countFailure(code: JudgedCode): Promise<void>;
}
