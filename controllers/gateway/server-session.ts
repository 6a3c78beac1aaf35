import { randomUUID } from 'node:crypto';
import type { Logger } from 'pino';
import type {
  ControlHost,
  ControlSession,
  Hello,
  Refusal,
  Rejection,
  Report,
  Welcome,
} from '../../agent-protocol/control-session.ts';
import { CallError } from '../../agent-protocol/call-error.ts';
import type {
  AskParams,
  CallParams,
  EngineState,
  Load,
  Position,
  UpdateFailure,
} from '../../agent-protocol/messages.ts';
import { portPolicyOf } from '../../store/direct-ports.ts';
import { isConflict, isUnavailable, unavailable } from '../../store/errors.ts';
import type { KeyChange, ObjectChange, TenantView } from '../../store/mirror.ts';
import type { Repository } from '../../store/repo.ts';
import { settingsOf } from '../../store/settings.ts';
import { caughtUp } from './caught-up.ts';
import { updateFor } from './agent-update.ts';
import { identify, join } from './authenticate.ts';
import type { Identified } from './authenticate.ts';
import { presentHistory } from './history.ts';
import { limits } from './limits.ts';
import { LiveHold, storedFailure, storedState } from './live-hold.ts';
import type { SessionDeps } from './session-deps.ts';
import { SessionWork } from './session-work.ts';
import type { SessionWorkOptions } from './session-work.ts';
import { recordStranger, unknownKeyWords } from './stranger.ts';

/** What the gateway does with its sessions. */
export interface SessionOwner {
  /** The agent sent its hello. If its handshake may not begin now, returns when it may try again. */
  greets(session: ServerSession): { retryAfterMs: number } | undefined;
  /** The agent proved its key. */
  proved(session: ServerSession): void;
  /** The session is the one of its server from now on. */
  entered(session: ServerSession): void;
  /** Resolves when the server may have a report stored. */
  mayReport(session: ServerSession): Promise<void>;
  loaded(session: ServerSession): void;
  ended(session: ServerSession): void;
}

/**
 * One agent's session on this replica, from its hello to its end: the agent's identity, and the hold on the live key.
 * {@link SessionWork} sends the desired set and stores the reports.
 *
 * Invariants: the desired set is sent only after the mirror shows the session's own live key, so it is never older than
 * the set of an earlier session. Everything written is fenced by the live key at the session's epoch. A session whose
 * key was taken by another one ends. A session whose lease expired takes the key again and stores nothing meanwhile.
 */
export class ServerSession implements ControlHost {
  readonly id = randomUUID();
  readonly tenant: string;
  readonly since: Date;
  load: Load | undefined;
  /** Round trip of a beat as the agent last measured it, in milliseconds. */
  roundTripMs: number | undefined;
  #deps: SessionDeps;
  #owner: SessionOwner;
  #control: () => ControlSession;
  #repo: Repository;
  #view: TenantView;
  #log: Logger;
  #identified: Identified | undefined;
  #work: SessionWork | undefined;
  #incarnation: string;
  /** The agent's set is of the store's present history. */
  #isProven = false;
  #isOver = false;
  #slowedAt = -Infinity;
  #closed = Promise.withResolvers<void>();

  constructor(
    deps: SessionDeps,
    owner: SessionOwner,
    tenant: { name: string; repo: Repository },
    control: () => ControlSession,
  ) {
    this.#deps = deps;
    this.#owner = owner;
    this.tenant = tenant.name;
    this.#repo = tenant.repo;
    this.#control = control;
    this.#view = deps.mirror.tenant(tenant.name);
    this.#log = deps.log.child({ tenant: tenant.name, session: this.id });
    this.#incarnation = deps.store.incarnation;
    this.since = deps.clock.now();
  }

  get server(): string | undefined {
    return this.#work?.server;
  }

  /** Resolves when the session has ended and released its server. */
  get closed(): Promise<void> {
    return this.#closed.promise;
  }

  get control(): ControlSession {
    return this.#control();
  }

  /** A call as it is sent to the agent, see {@link Projection.call}. */
  opened(params: CallParams): CallParams {
    return this.#work?.opened(params) ?? params;
  }

  async hello(hello: Hello): Promise<{ refuse: Refusal } | { publicKey: string }> {
    const away = this.#owner.greets(this);
    if (away !== undefined) return this.#crowded(away.retryAfterMs);
    this.#log = this.#log.child({ server: hello.server_id.slice(0, 64) });
    try {
      const answer = await identify(hello, this.#repo, this.#deps.clock);
      if ('refuse' in answer) return this.#refused(answer.refuse);
      this.#identified = answer;
      return { publicKey: answer.publicKey };
    } catch (error) {
      return this.#unavailable(error);
    }
  }

  async enter(hello: Hello): Promise<{ refuse: Refusal } | { welcome: Welcome }> {
    this.#owner.proved(this);
    try {
      return await this.#enter(hello);
    } catch (error) {
      return this.#unavailable(error);
    }
  }

  up(): void {
    this.#deps.metrics.handshakes.inc({ result: 'welcomed' });
    this.#log.info('Agent connected');
    this.#work?.begin(this.#isProven);
  }

  async report(report: Report): Promise<Rejection[]> {
    await this.#owner.mayReport(this);
    return (await this.#work?.report(report)) ?? [];
  }

  async ask(params: AskParams): Promise<unknown> {
    if (this.#work === undefined) throw new CallError('away', 'The session of the server has not begun');
    return this.#work.ask(params);
  }

  applied(): void {
    this.#work?.applied();
  }

  /** The agent sends more than is read of it. */
  slowed(): void {
    const now = this.#deps.clock.monotonic();
    if (now - this.#slowedAt < limits.bytes.logMs) return;
    this.#slowedAt = now;
    this.#log.warn(
      { advice: 'Look at what the agent sends: its log, and who reads terminals and logs of the server' },
      'An agent sends more bytes than are taken of one: it has to wait, and nothing is lost',
    );
  }

  needSnapshot(why: string): void {
    if (this.#work?.needSnapshot() === true)
      this.#log.warn({ why }, 'An agent asks for its whole desired set again: see why');
  }

  loaded(load: Load, roundTripMs?: number): void {
    this.load = load;
    this.roundTripMs = roundTripMs ?? this.roundTripMs;
    if (this.#deps.store.incarnation !== this.#incarnation)
      this.control.goodbye('The store was rewound', limits.drain.minMs);
    this.#owner.loaded(this);
  }

  state(engine: EngineState, update: UpdateFailure | undefined): void {
    this.#work?.state(engine, update);
  }

  ended(why: string, isOrderly: boolean): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#work?.stop();
    this.#owner.ended(this);
    if (this.#work === undefined) this.#closed.resolve();
    else {
      this.#log.info({ why }, 'Agent disconnected');
      void this.#close(this.#work, isOrderly ? undefined : why);
    }
  }

  /** An object of the tenant changed that may concern this session's server. */
  changed(change: ObjectChange): void {
    if (!this.#isOver) this.#work?.changed(change);
  }

  keyChanged(change: KeyChange): void {
    if (!this.#isOver) this.#work?.keyChanged(change);
  }

  /** Another session of this replica took the server over: that is known here before the mirror reports it. */
  superseded(): void {
    this.control.goodbye('superseded', limits.refusal.supersededMs);
  }

  async #enter(hello: Hello): Promise<{ refuse: Refusal } | { welcome: Welcome }> {
    const identified = this.#identified;
    if (identified === undefined) throw new Error('Cannot enter before the hello');
    if (!(await this.#canProve(hello.control?.key_hash))) {
      await recordStranger(this.#deps, { tenant: this.tenant, server: identified.server.meta.id });
      return this.#refused({
        code: 'unauthorized',
        message: unknownKeyWords,
        retry_after_ms: limits.refusal.unauthorizedMs,
      });
    }
    if (identified.joins) {
      const refused = await join(hello, this.#repo, this.#deps.clock);
      if (refused !== undefined) return this.#refused(refused.refuse);
      this.#log.info('Agent joined');
    }
    const server = identified.server.meta.id;
    const history = await presentHistory(this.#deps.store);
    const hold = this.#holdFor(server, hello);
    const live = await hold.take();
    if (live === undefined) return this.#refused(gone(server));
    // From here on `ended` releases the key.
    const capabilities = new Set(hello.capabilities);
    const incarnation = history ?? this.#incarnation;
    const agent = { publicKey: identified.publicKey, capabilities, agentVersion: hello.agent_version };
    this.#work = this.#workFor(server, hold, { ...agent, incarnation });
    if (this.#isOver) {
      await hold.release();
      return this.#refused(busy());
    }
    this.#owner.entered(this);
    if (!(await caughtUp(this.#deps, live.epoch))) return this.#refused(busy());
    // Changes before the session was entered did not reach it.
    hold.verify(this.#view.agent(server));
    const present = this.#view.get('server', server);
    if (present?.desired.agent_public_key !== identified.publicKey)
      return this.#refused({ ...gone(server), message: 'Another agent has joined as this server' });
    this.#isProven = hello.store === null || isOf(history, hello.store, live.epoch);
    const update = updateFor(present, agent);
    return {
      welcome: {
        session: this.id,
        epoch: live.epoch,
        lease_ms: limits.session.leaseMs,
        log_retention_days: identified.server.desired.log_retention_days,
        ports: portPolicyOf(identified.server.desired, this.#deps.ownPorts),
        ...(hello.control !== undefined && { proof: this.#prove(server, hello.control) }),
        registries: [...settingsOf(this.#view).registries],
        ...(update !== undefined && { update: { version: update.version, requested_at: update.requestedAt } }),
      },
    };
  }

  /**
   * Whether the agent would believe the proof of this control plane. One that would not must not take the live key: its
   * server would look connected at each attempt.
   */
  async #canProve(keyHash: string | undefined): Promise<boolean> {
    const { controlKeys, store } = this.#deps;
    if (keyHash === undefined || controlKeys.knows(keyHash)) return true;
    // The mirror may not show the newest key yet, which the agent learned from another replica.
    if (!(await caughtUp(this.#deps, await store.revision()))) throw unavailable('The mirror is behind the store');
    return controlKeys.knows(keyHash);
  }

  #prove(server: string, { nonce, key_hash: keyHash }: NonNullable<Hello['control']>): Welcome['proof'] {
    return this.#deps.controlKeys.prove(keyHash, { server, nonce, session: this.id });
  }

  #holdFor(server: string, hello: Hello): LiveHold {
    const { store, clock, replica } = this.#deps;
    const about = {
      replica,
      session: this.id,
      machineId: hello.machine_id,
      bootId: hello.boot_id,
      ...(hello.process_id !== undefined && { processId: hello.process_id }),
      agentVersion: hello.agent_version,
      runtime: hello.runtime,
      runtimeVersion: hello.runtime_version,
      capabilities: hello.capabilities,
      ...(hello.forbids !== undefined && { forbids: hello.forbids }),
      ...(hello.engine !== undefined && storedState(hello.engine)),
      ...(hello.update !== undefined && { updateFailure: storedFailure(hello.update) }),
      since: this.since.toISOString(),
    };
    const lost = (): void => this.superseded();
    return new LiveHold({ store, clock, log: this.#log, tenant: this.tenant, server, about, lost });
  }

  #workFor(
    server: string,
    hold: LiveHold,
    agent: Pick<SessionWorkOptions, 'publicKey' | 'capabilities' | 'agentVersion' | 'incarnation'>,
  ): SessionWork {
    return new SessionWork({
      deps: this.#deps,
      tenant: this.tenant,
      repo: this.#repo,
      view: this.#view,
      log: this.#log,
      server,
      ...agent,
      hold,
      control: this.#control,
    });
  }

  async #close(work: SessionWork, lost: string | undefined): Promise<void> {
    try {
      await work.close(lost);
    } catch (error) {
      this.#log.error({ err: error }, 'Cannot close the session of an agent');
    }
    this.#closed.resolve();
  }

  /** Refuses without a line in the log, as many agents at once must not fill it. */
  #crowded(retryAfterMs: number): { refuse: Refusal } {
    this.#deps.metrics.handshakes.inc({ result: 'busy' });
    return { refuse: { code: 'busy', message: 'Too many agents connect at once', retry_after_ms: retryAfterMs } };
  }

  #refused(refuse: Refusal): { refuse: Refusal } {
    this.#deps.metrics.handshakes.inc({ result: refuse.code });
    this.#log.warn({ code: refuse.code, why: refuse.message }, 'Refused an agent: see why');
    return { refuse };
  }

  /** The refusal for an error of the store. @throws any other error */
  #unavailable(error: unknown): { refuse: Refusal } {
    if (isUnavailable(error) || isConflict(error)) return this.#refused(busy());
    this.#log.error(
      { err: error },
      'The handshake with an agent failed by an unexpected error, which is a bug: the agent connects again',
    );
    throw error;
  }
}

/** Whether a set at that position is of the history, in which the store is at `revision` at least. */
function isOf(history: string | undefined, position: Position, revision: number): boolean {
  return history !== undefined && position.incarnation === history && position.revision <= revision;
}

function busy(): Refusal {
  return { code: 'busy', message: 'The control plane is not ready', retry_after_ms: limits.refusal.busyMs };
}

function gone(server: string): Refusal {
  return { code: 'unknown', message: `There is no server ${server}`, retry_after_ms: limits.refusal.unknownMs };
}
