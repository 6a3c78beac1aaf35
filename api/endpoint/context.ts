import type { TenantView } from '../../store/mirror.ts';
import type { Repository } from '../../store/repo.ts';
import type { Unit } from '../../store/unit-of-work.ts';
import type { ReadonlyResource } from '../../store/resource.ts';
import type { Store } from '../../store/store.ts';
import type { AuditLog } from '../audit/audit-log.ts';
import type { Passwords } from '../auth/passwords.ts';
import type { JudgedCode } from '../auth/login-codes.ts';
import type { LoginThrottle } from '../auth/login-throttle.ts';
import type { Principal } from '../auth/principal.ts';
import type { SetupToken } from '../auth/setup-token.ts';
import type { ShortSecrets } from '../auth/short-secrets.ts';
import type { StreamTickets } from '../auth/stream-tickets.ts';
import type { Tokens } from '../auth/tokens.ts';
import type { Access } from '../rights/authorize.ts';
import type { TerminalSessions } from '../rights/terminal-sessions.ts';
import type { Budgets } from '../budgets/budgets.ts';
import type { AgentReleases } from '../ground/agent-release.ts';
import type { ApiDependencies, RequestInfo } from '../ground/dependencies.ts';
import type { KeyPairs } from '../ssh-keys/key-pairs.ts';
import type { InTurn } from './in-turn.ts';
import type { Keep, Reply } from '../ground/cached-json.ts';
import type { Quota } from '../http/rate-limit.ts';
import type { Nearness } from './nearness.ts';
import type { RequestRepository } from './request-repository.ts';

/** What all requests share. */
export interface Services extends ApiDependencies, Nearness {
  tokens: Tokens;
  passwords: Passwords;
  keyPairs: KeyPairs;
  throttle: LoginThrottle;
  shortSecrets: ShortSecrets;
  setupToken: SetupToken;
  tickets: StreamTickets;
  terminals: TerminalSessions;
  /** Takes a token of a client that asks for one-time codes; `undefined` if the limit is off. */
  codeRate(address: string): Quota | undefined;
  keep: Keep;
  /** The release of the agent that this replica serves. */
  releases: AgentReleases;
  audit: AuditLog;
  budgets: Budgets;
  /** Runs writers of one object one after another. */
  inTurn: InTurn;
  /** Counts a call of a webhook that was refused. */
  webhookRefused(webhook: ReadonlyResource<'git_webhook'>, because: string): void;
  /** Records that a service key was used. */
  keyUsed(key: ReadonlyResource<'service_key'>, repo: Repository): void;
}

/**
 * The services that handlers and streams get. None of them sends a transaction: code that has only these cannot write
 * past the audit log, as that does not compile.
 */
export interface ReadingServices extends Omit<Services, 'store' | 'repositoryFor' | 'otherLeader'> {
  store: Pick<Store, 'incarnation' | 'get' | 'list' | 'health'>;
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
  /** Aborts when the client disconnects. */
  signal: () => AbortSignal;
  /** The caller; a public route must not use it. */
  principal: Principal;
  /** The caller of a public route, if the request has a valid credential. */
  caller: Principal | undefined;
  /**
   * Commits the unit and answers with what `answer` makes of its objects. It is the only way for a handler to write:
   * the audit record of the unit joins its transaction. With an `Idempotency-Key` the answer is recorded in the same
   * transaction, so that `answer` is called before it, too.
   *
   * @throws conflict, after which the whole request is tried again; ApiError CONFLICT for a name that is taken
   */
  commit<T>(unit: Unit, answer: () => Reply<T>): Promise<Reply<T>>;
  /** Counts a wrong guess at a code. It has no audit record of its own: the failed login has one. @throws conflict */
  countFailure(code: JudgedCode): Promise<void>;
  /** Counts a wrong second factor at a login, in the same way. Returns whether the user is to be told. @throws conflict */
  countWrongFactor(user: ReadonlyResource<'user'>): Promise<boolean>;
}
