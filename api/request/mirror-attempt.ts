import { keys } from '../../store/keys.ts';
import type { KindName } from '../../store/kinds/kinds.ts';
import type { TenantView } from '../../store/mirror.ts';
import type { Unit } from '../../store/unit-of-work.ts';
import type { ReadonlyResource } from '../../store/resource.ts';
import type { Revision } from '../../store/revision.ts';
import type { Guard } from '../../store/store.ts';
import type { ReadingServices } from '../endpoint/context.ts';
import type { RequestRepository } from '../endpoint/request-repository.ts';

/** The decision rests on something that no guard proves: the request is decided again from fresh state. */
class Unproven extends Error {}

type State =
  /** What is read is guarded, and what no guard proves ends the attempt. */
  | 'deciding'
  /** The decision is made: reads are for the answer only. */
  | 'answering'
  /** The transaction has committed, so what was read was true. The handler may do anything now. */
  | 'written'
  /** The attempt cannot commit any more. */
  | 'over';

/**
 * One attempt to decide a write from the mirror without asking the store whether the mirror is current. The transaction
 * guards everything that was read for the decision: it commits only if all of that is still so, whatever the mirror
 * missed. A read that no guard can prove (all objects of a kind, the sessions of agents) throws, and so does the use of
 * a service that acts or waits: such a request is decided from fresh state, and has done nothing before.
 */
export class MirrorAttempt {
  readonly view: TenantView;
  /**
   * The view for the state in which an object is shown. Its ranges are not guarded: no verb depends on what an answer
   * shows of other objects than those that it names.
   */
  readonly shown: TenantView;
  readonly #guards = new Map<string, Guard>();
  #state: State = 'deciding';

  constructor(view: TenantView) {
    this.view = new GuardingView(view, this);
    this.shown = { ...view, get: (kind, id) => this.view.get(kind, id) };
  }

  /** Guards that a key is at the revision that was read, or absent, if the decision is not made yet. */
  read(key: string, revision: Revision | undefined): void {
    if (this.#state === 'deciding')
      this.#guards.set(
        `${key} ${revision}`,
        revision === undefined ? { key, is: 'absent' } : { key, is: 'at', revision },
      );
    else this.#refuseIfOver(key);
  }

  /** @throws Unproven unless what is used here cannot change the decision any more */
  readUnguarded(what: string): void {
    if (this.#state === 'deciding') throw this.unproven(what);
    this.#refuseIfOver(what);
  }

  /** Ends the attempt. Returns the error for the caller to throw. */
  unproven(what: string): Error {
    this.#state = 'over';
    return new Unproven(`A guard cannot prove what the decision rests on: ${what}`);
  }

  /** Call it before the unit is committed: the unit gets the guards, and reads from now on are for the answer. */
  decided(unit: Unit): void {
    if (this.#state === 'written') return;
    if (this.#state !== 'deciding') throw this.unproven('a second transaction');
    for (const guard of this.#guards.values()) unit.guard(guard);
    this.#state = 'answering';
  }

  /** The transaction has committed. */
  written(): void {
    this.#state = 'written';
  }

  get hasWritten(): boolean {
    return this.#state === 'written';
  }

  /** The repository for the handler: its reads are those of the store, and are used after the commit only. */
  repository(real: RequestRepository): RequestRepository {
    const late = this.afterCommit('the store', real);
    return {
      tenant: real.tenant,
      get: (kind, id) => late.get(kind, id),
      idByName: (kind, scope, name) => late.idByName(kind, scope, name),
      begin: () => real.begin(),
    };
  }

  /** The services for the handler: of those that act, wait or read elsewhere, it may use none before the commit. */
  services(real: ReadingServices): ReadingServices {
    const { config, clock, random, log, registry, sealer, unsealer, shortSecrets, keep } = real;
    return {
      config,
      clock,
      random,
      log,
      registry,
      sealer,
      unsealer,
      shortSecrets,
      keep,
      store: this.afterCommit('the store', real.store),
      mirror: this.afterCommit('the mirror', real.mirror),
      agents: this.afterCommit('agents', real.agents),
      mailer: this.afterCommit('the mailer', real.mailer),
      registryLogin: this.afterCommit('a registry', real.registryLogin),
      probeBucket: this.afterCommit('a bucket', real.probeBucket),
      searchBucket: this.afterCommit('a bucket', real.searchBucket),
      tokens: this.afterCommit('tokens', real.tokens),
      passwords: this.afterCommit('passwords', real.passwords),
      keyPairs: this.afterCommit('pairs of keys', real.keyPairs),
      throttle: this.afterCommit('counted logins', real.throttle),
      setupToken: this.afterCommit('the setup token', real.setupToken),
      tickets: this.afterCommit('tickets', real.tickets),
      terminals: this.afterCommit('terminals', real.terminals),
      releases: this.afterCommit('the disk', real.releases),
      codeRate: this.afterCommit('the rate of codes', real.codeRate),
      audit: this.afterCommit('the audit log', real.audit),
      budgets: this.afterCommit('budgets', real.budgets),
      inTurn: this.afterCommit('a turn', real.inTurn),
      webhookRefused: this.afterCommit('a refused call', real.webhookRefused),
      keyUsed: this.afterCommit('the use of a key', real.keyUsed),
      fresh: this.afterCommit('fresh state', real.fresh),
      near: this.afterCommit('fresh state', real.near),
      committed: this.afterCommit('a commit', real.committed),
      unanswered: this.afterCommit('a commit', real.unanswered),
    };
  }

  /** A service that throws before the commit. */
  afterCommit<T extends object>(what: string, real: T): T {
    const check = (): void => {
      if (this.#state !== 'written') throw this.unproven(what);
    };
    return new Proxy(real, {
      get(target, name) {
        check();
        const value: unknown = Reflect.get(target, name, target);
        return typeof value === 'function' ? value.bind(target) : value;
      },
      apply(target, self, args) {
        check();
        // only a service that is a function is called
        return Reflect.apply(target as T & ((...all: unknown[]) => unknown), self, args);
      },
    });
  }

  #refuseIfOver(what: string): void {
    if (this.#state === 'over') throw this.unproven(what);
  }
}

/**
 * The kind whose observed state decides: whether a deployment is under way, has succeeded, has an image. The observed
 * state of all others is only shown, so that reports of agents do not make writes of users fail.
 */
const decidesByObserved: ReadonlySet<KindName> = new Set(['deployment']);

/** The view of an attempt; see {@link MirrorAttempt}. */
class GuardingView implements TenantView {
  readonly tenant: string;
  readonly isSame: TenantView['isSame'];
  readonly #view: TenantView;
  readonly #attempt: MirrorAttempt;

  constructor(view: TenantView, attempt: MirrorAttempt) {
    this.tenant = view.tenant;
    this.isSame = view.isSame;
    this.#view = view;
    this.#attempt = attempt;
  }

  get<K extends KindName>(kind: K, id: string): ReadonlyResource<K> | undefined {
    const it = this.#view.get(kind, id);
    this.#attempt.read(keys.desired(this.tenant, kind, id), it?.meta.desiredRevision);
    if (decidesByObserved.has(kind))
      this.#attempt.read(keys.observed(this.tenant, kind, id), it?.meta.observedRevision);
    return it;
  }

  by<K extends KindName>(kind: K, index: string, value: string): readonly ReadonlyResource<K>[] {
    const found = this.#view.by(kind, index, value);
    const [only] = found;
    // no second member has its place while the first one is there
    if (kind === 'member' && index === 'place' && only !== undefined)
      this.#attempt.read(keys.desired(this.tenant, kind, only.meta.id), only.meta.desiredRevision);
    else this.#attempt.readUnguarded(`${kind} by ${index}`);
    return found;
  }

  list<K extends KindName>(kind: K): readonly ReadonlyResource<K>[] {
    this.#attempt.readUnguarded(`all of ${kind}`);
    return this.#view.list(kind);
  }

  unreadable(kind: KindName): readonly string[] {
    this.#attempt.readUnguarded(`unreadable ${kind}`);
    return this.#view.unreadable(kind);
  }

  agent(server: string): ReturnType<TenantView['agent']> {
    this.#attempt.readUnguarded('a session of an agent');
    return this.#view.agent(server);
  }

  heldRemovals(server: string): ReturnType<TenantView['heldRemovals']> {
    this.#attempt.readUnguarded('held removals');
    return this.#view.heldRemovals(server);
  }

  connections(server: string): ReturnType<TenantView['connections']> {
    this.#attempt.readUnguarded('connections of an agent');
    return this.#view.connections(server);
  }
}
