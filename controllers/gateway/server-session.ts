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
import { closeCodes } from '../../agent-protocol/wire.ts';
import { signalAfter } from '../../agent-protocol/signal-after.ts';
import type { Clock } from '../../store/clock.ts';
import { isConflict, isUnavailable } from '../../store/errors.ts';
import { keys } from '../../store/keys.ts';
import type { KeyChange, Mirror, ObjectChange, TenantView } from '../../store/mirror.ts';
import type { Repository } from '../../store/repo.ts';
import type { ReadonlyResource } from '../../store/resource.ts';
import type { Unsealer } from '../../store/seal.ts';
import type { Store } from '../../store/store.ts';
import { identify, join } from './authenticate.ts';
import type { Identified } from './authenticate.ts';
import { DesiredFeed } from './desired-feed.ts';
import { Intake } from './intake.ts';
import { limits } from './limits.ts';
import { LiveHold } from './live-hold.ts';
import type { GatewayMetrics } from './metrics.ts';
import { notSent } from './observed.ts';
import { SessionEvents } from './session-events.ts';
import { project } from './projection.ts';
import { RemovalHold } from './removal-hold.ts';

type Assignment = ReadonlyResource<'assignment'>;

export interface SessionDeps {
  store: Store;
  mirror: Mirror;
  unsealer: Unsealer;
  clock: Clock;
  log: Logger;
  metrics: GatewayMetrics;
  /** A deviation that an agent put back, by the kind of its workload. */
  driftCorrected: (kind: string) => void;
  replica: string;
}

/** What the gateway does with its sessions. */
export interface SessionOwner {
  /** The session is its server's from now on. */
  entered(session: ServerSession): void;
  loaded(session: ServerSession): void;
  ended(session: ServerSession): void;
}

/** What an admitted session works with. */
interface Parts {
  server: string;
  hold: LiveHold;
  feed: DesiredFeed;
  intake: Intake;
  removals: RemovalHold;
  events: SessionEvents;
}

/**
 * One agent's session on this replica: who it is, its hold on the live key, what it is told and what it reports.
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
  #parts: Parts | undefined;
  #incarnation: string;
  #rewound = false;
  #isOver = false;
  #cancelCensus: (() => void) | undefined;
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
    return this.#parts?.server;
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
    const parts = this.#parts;
    if (parts === undefined) return;
    if (!parts.removals.begin(this.#rewound)) parts.feed.start();
    else
      this.#cancelCensus = this.#d.clock.timer(limits.hold.reportMs, () =>
        this.control.close('The complete report did not come in time'),
      );
  }

  async report(report: Report): Promise<Rejection[]> {
    const parts = this.#parts;
    if (parts === undefined) return [];
    const rejected = await parts.intake.take(report.items);
    const { reports } = this.#d.metrics;
    reports.inc({ result: 'stored' }, report.items.length - rejected.length);
    for (const { why } of rejected) reports.inc({ result: why });
    const fence = parts.hold.fence();
    if (fence === undefined) return rejected;
    const census = await parts.removals.take(report, fence);
    if (census !== undefined) this.#startHolding(parts, census);
    return rejected;
  }

  applied(): void {
    this.#parts?.feed.applied();
  }

  needSnapshot(why: string): void {
    this.#log.warn({ why }, 'Agent asks for a snapshot');
    this.#parts?.feed.needSnapshot();
  }

  loaded(load: Load): void {
    this.load = load;
    if (this.#d.store.incarnation !== this.#incarnation)
      this.control.goodbye('The store was rewound', limits.drain.minMs);
    this.#owner.loaded(this);
  }

  engine(state: EngineState): void {
    this.#parts?.hold.describe(state);
  }

  ended(why: string): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#cancelCensus?.();
    this.#owner.ended(this);
    if (this.#parts === undefined) this.#closed.resolve();
    else {
      this.#log.info({ why }, 'Agent disconnected');
      void this.#close(this.#parts);
    }
  }

  /** An object of the tenant changed that may be of this session's server. */
  changed(change: ObjectChange): void {
    const parts = this.#parts;
    if (parts === undefined || this.#isOver) return;
    if (change.kind === 'assignment' && change.part === 'desired') parts.feed.changed(change.id);
    else if (change.kind === 'server' && change.id === parts.server) this.#serverChanged();
  }

  keyChanged(change: KeyChange): void {
    const parts = this.#parts;
    if (parts === undefined || this.#isOver) return;
    if (change.key === keys.agent(this.tenant, parts.server)) parts.hold.changed(change);
    else if (parts.removals.isConfirmedBy(change)) void this.#releaseHeld(parts);
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
    this.#parts = this.#partsFor(server, hold);
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

  #partsFor(server: string, hold: LiveHold): Parts {
    const { store, mirror, clock, unsealer, metrics } = this.#d;
    const [view, log, repo, tenant] = [this.#view, this.#log, this.#repo, this.tenant];
    const feed = new DesiredFeed({
      mirror,
      view,
      clock,
      server,
      incarnation: this.#incarnation,
      project: (it) => project(it, unsealer),
      out: {
        snapshot: (position, items, keep) => {
          metrics.desired.inc({ form: 'snapshot' });
          this.control.snapshot(position, items, keep);
        },
        delta: (from, to, put, drop) => {
          metrics.desired.inc({ form: 'delta' });
          this.control.delta(from, to, put, drop);
        },
      },
      unopened: (it, message) => void this.#notSent(it, message),
      failed: (error) => {
        log.error({ err: error }, 'Desired set could not be made');
        this.control.close('Internal error', closeCodes.failed);
      },
      silent: () => this.control.close('The desired set was not stored in time'),
    });
    const events = new SessionEvents({ ...this.#d, log, view, fence: () => hold.fence() });
    const intake = new Intake({
      server,
      repo,
      view,
      mirror,
      clock,
      fence: () => hold.fence(),
      stored: (it, report) => events.reported(it, report),
      fenced: () => hold.fenced(),
    });
    const removals = new RemovalHold({ store, view, tenant, server });
    return { server, hold, feed, intake, removals, events };
  }

  #startHolding(parts: Parts, { keep, isNew }: { keep: string[]; isNew: boolean }): void {
    this.#cancelCensus?.();
    parts.feed.start(keep);
    if (!isNew) return;
    this.#log.error({ held: keep.length }, 'Removals are held since the store was rewound');
    parts.events.record('server', parts.server, {
      type: 'warning',
      reason: 'RemovalsHeld',
      message: `The store was rewound and does not know ${keep.length} of the instances here: they stay until confirmed`,
    });
  }

  async #releaseHeld({ feed, hold, removals }: Parts): Promise<void> {
    feed.start();
    const fence = hold.fence();
    if (fence === undefined) return; // the next session finds the confirmation
    try {
      await removals.drop(fence);
    } catch (error) {
      if (!isUnavailable(error)) throw error; // as above
    }
  }

  #serverChanged(): void {
    const server = this.#view.get('server', this.server ?? '');
    if (server === undefined) this.control.goodbye('retired', limits.refusal.unknownMs);
    else if (server.desired.agent_public_key !== this.#identified?.publicKey)
      this.control.goodbye('The key of the server was replaced', limits.refusal.unauthorizedMs);
    else this.control.settings({ logRetentionDays: server.desired.log_retention_days });
  }

  /** Says of an assignment that it is kept out of the set, unless the agent has reported that very generation. */
  async #notSent(seen: Assignment, message: string): Promise<void> {
    const { id, generation } = seen.meta;
    if (seen.observed?.observedGeneration === generation) return;
    const { clock } = this.#d;
    this.#parts?.events.record('application', seen.desired.workload_id, {
      type: 'warning',
      reason: 'SecretUnavailable',
      message,
    });
    try {
      const it = await this.#repo.get('assignment', id);
      const fence = this.#parts?.hold.fence();
      if (it === undefined || fence === undefined || it.observed?.observedGeneration === it.meta.generation) return;
      await this.#repo.observe<'assignment'>(it, notSent(it, message, clock.now()), [fence]);
    } catch (error) {
      if (!isUnavailable(error) && !isConflict(error)) this.#log.error({ err: error, assignment: id }, 'Not reported');
      clock.timer(limits.intake.retryMs, () => this.#isOver || void this.#notSent(seen, message));
    }
  }

  async #close({ feed, hold, events }: Parts): Promise<void> {
    feed.stop();
    try {
      await hold.release();
      await events[Symbol.asyncDispose]();
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
