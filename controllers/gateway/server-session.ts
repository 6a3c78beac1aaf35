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
import type { EngineState, Load } from '../../agent-protocol/messages.ts';
import { signalAfter } from '../../agent-protocol/signal-after.ts';
import { isConflict, isUnavailable } from '../../store/errors.ts';
import type { KeyChange, ObjectChange, TenantView } from '../../store/mirror.ts';
import type { Repository } from '../../store/repo.ts';
import { identify, join } from './authenticate.ts';
import type { Identified } from './authenticate.ts';
import { limits } from './limits.ts';
import { LiveHold } from './live-hold.ts';
import type { SessionDeps } from './session-deps.ts';
import { SessionWork } from './session-work.ts';

/** What the gateway does with its sessions. */
export interface SessionOwner {
  /** The session is its server's from now on. */
  entered(session: ServerSession): void;
  loaded(session: ServerSession): void;
  ended(session: ServerSession): void;
}

/**
 * One agent's session on this replica, from its hello to its end: who it is, and its hold on the live key. What is told
 * and reported in it is its {@link SessionWork}.
 *
 * Invariants: the desired set is told only after the mirror shows the session's own live key, so it is never older than
 * what an earlier session told. Everything written is fenced by the live key at the session's epoch. A session whose key
 * was taken by another one ends; one whose lease ran out takes the key again and stores nothing meanwhile.
 */
export class ServerSession implements ControlHost {
  readonly id = randomUUID();
  readonly tenant: string;
  readonly since: Date;
  load: Load | undefined;
  #d: SessionDeps;
  #owner: SessionOwner;
  #control: () => ControlSession;
  #repo: Repository;
  #view: TenantView;
  #log: Logger;
  #identified: Identified | undefined;
  #work: SessionWork | undefined;
  #incarnation: string;
  #rewound = false;
  #isOver = false;
  #closed = Promise.withResolvers<void>();

  constructor(
    deps: SessionDeps,
    owner: SessionOwner,
    tenant: { name: string; repo: Repository },
    control: () => ControlSession,
  ) {
    this.#d = deps;
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

  /** Resolves when the session ended and gave its server up. */
  get closed(): Promise<void> {
    return this.#closed.promise;
  }

  get control(): ControlSession {
    return this.#control();
  }

  async hello(hello: Hello): Promise<{ refuse: Refusal } | { publicKey: string }> {
    this.#log = this.#log.child({ server: hello.server_id.slice(0, 64) });
    try {
      const answer = await identify(hello, this.#repo, this.#d.clock);
      if ('refuse' in answer) return this.#refused(answer.refuse);
      this.#identified = answer;
      return { publicKey: answer.publicKey };
    } catch (error) {
      return this.#unavailable(error);
    }
  }

  async enter(hello: Hello): Promise<{ refuse: Refusal } | { welcome: Welcome }> {
    try {
      return await this.#enter(hello);
    } catch (error) {
      return this.#unavailable(error);
    }
  }

  up(): void {
    this.#d.metrics.handshakes.inc({ result: 'welcomed' });
    this.#log.info('Agent connected');
    this.#work?.begin(this.#rewound);
  }

  async report(report: Report): Promise<Rejection[]> {
    return (await this.#work?.report(report)) ?? [];
  }

  applied(): void {
    this.#work?.applied();
  }

  needSnapshot(why: string): void {
    this.#log.warn({ why }, 'Agent asks for a snapshot');
    this.#work?.needSnapshot();
  }

  loaded(load: Load): void {
    this.load = load;
    if (this.#d.store.incarnation !== this.#incarnation)
      this.control.goodbye('The store was rewound', limits.drain.minMs);
    this.#owner.loaded(this);
  }

  engine(state: EngineState): void {
    this.#work?.engine(state);
  }

  ended(why: string): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#work?.stop();
    this.#owner.ended(this);
    if (this.#work === undefined) this.#closed.resolve();
    else {
      this.#log.info({ why }, 'Agent disconnected');
      void this.#close(this.#work);
    }
  }

  /** An object of the tenant changed that may be of this session's server. */
  changed(change: ObjectChange): void {
    if (!this.#isOver) this.#work?.changed(change);
  }

  keyChanged(change: KeyChange): void {
    if (!this.#isOver) this.#work?.keyChanged(change);
  }

  /** Another session of this replica took the server over: its commit is known here before the mirror tells it. */
  superseded(): void {
    this.control.goodbye('superseded', limits.refusal.supersededMs);
  }

  async #enter(hello: Hello): Promise<{ refuse: Refusal } | { welcome: Welcome }> {
    const identified = this.#identified;
    if (identified === undefined) throw new Error('Cannot enter before the hello');
    if (identified.joins) {
      const refused = await join(hello, this.#repo, this.#d.clock);
      if (refused !== undefined) return this.#refused(refused.refuse);
      this.#log.info('Agent joined');
    }
    const server = identified.server.meta.id;
    const hold = this.#holdFor(server, hello);
    const live = await hold.take();
    if (live === undefined) return this.#refused(gone(server));
    // From here on `ended` gives the key back.
    this.#work = this.#workFor(server, hold, identified.publicKey);
    if (this.#isOver) {
      await hold.release();
      return this.#refused(busy());
    }
    this.#owner.entered(this);
    const deadline = signalAfter(this.#d.clock, limits.session.catchUpMs);
    try {
      await this.#d.mirror.reached(live.epoch, deadline.signal);
    } catch {
      return this.#refused(busy()); // the mirror lost its store, or waits longer than the agent
    } finally {
      deadline.cancel();
    }
    // What happened before this session was listened for.
    hold.verify(this.#view.agent(server));
    if (this.#view.get('server', server)?.desired.agent_public_key !== identified.publicKey)
      return this.#refused({ ...gone(server), message: 'The key of the server was replaced' });
    this.#rewound =
      hello.store !== null && (hello.store.incarnation !== this.#incarnation || hello.store.revision > live.epoch);
    return {
      welcome: {
        session: this.id,
        epoch: live.epoch,
        lease_ms: limits.session.leaseMs,
        log_retention_days: identified.server.desired.log_retention_days,
      },
    };
  }

  #holdFor(server: string, hello: Hello): LiveHold {
    const { store, clock, replica } = this.#d;
    const about = {
      replica,
      session: this.id,
      machineId: hello.machine_id,
      bootId: hello.boot_id,
      agentVersion: hello.agent_version,
      runtime: hello.runtime,
      runtimeVersion: hello.runtime_version,
      ...(hello.engine?.trouble !== undefined && { engineTrouble: { ...hello.engine.trouble } }),
      since: this.since.toISOString(),
    };
    const lost = (): void => this.superseded();
    return new LiveHold({ store, clock, log: this.#log, tenant: this.tenant, server, about, lost });
  }

  #workFor(server: string, hold: LiveHold, publicKey: string): SessionWork {
    return new SessionWork({
      deps: this.#d,
      tenant: this.tenant,
      repo: this.#repo,
      view: this.#view,
      log: this.#log,
      server,
      publicKey,
      incarnation: this.#incarnation,
      hold,
      control: this.#control,
    });
  }

  async #close(work: SessionWork): Promise<void> {
    try {
      await work.close();
    } catch (error) {
      this.#log.error({ err: error }, 'Session could not be closed');
    }
    this.#closed.resolve();
  }

  #refused(refuse: Refusal): { refuse: Refusal } {
    this.#d.metrics.handshakes.inc({ result: refuse.code });
    this.#log.warn({ code: refuse.code, why: refuse.message }, 'Agent refused');
    return { refuse };
  }

  /** @throws what is no trouble of the store */
  #unavailable(error: unknown): { refuse: Refusal } {
    if (isUnavailable(error) || isConflict(error)) return this.#refused(busy());
    this.#log.error({ err: error }, 'Handshake failed');
    throw error;
  }
}

function busy(): Refusal {
  return { code: 'busy', message: 'The control plane is not ready', retry_after_ms: limits.refusal.busyMs };
}

function gone(server: string): Refusal {
  return { code: 'unknown', message: `There is no server ${server}`, retry_after_ms: limits.refusal.unknownMs };
}
