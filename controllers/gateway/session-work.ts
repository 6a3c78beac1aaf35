import type { Logger } from 'pino';
import type { ControlSession, Rejection, Report } from '../../agent-protocol/control-session.ts';
import type { EngineState } from '../../agent-protocol/messages.ts';
import { closeCodes } from '../../agent-protocol/wire.ts';
import { isConflict, isUnavailable } from '../../store/errors.ts';
import { keys } from '../../store/keys.ts';
import type { KeyChange, ObjectChange, TenantView } from '../../store/mirror.ts';
import type { Repository } from '../../store/repo.ts';
import type { ReadonlyResource } from '../../store/resource.ts';
import { DesiredFeed } from './desired-feed.ts';
import { Intake } from './intake.ts';
import { limits } from './limits.ts';
import type { LiveHold } from './live-hold.ts';
import { notSent } from './observed.ts';
import { project } from './projection.ts';
import { RemovalHold } from './removal-hold.ts';
import type { SessionDeps } from './session-deps.ts';
import { SessionEvents } from './session-events.ts';

type Assignment = ReadonlyResource<'assignment'>;

/** Whose work it is. */
export interface SessionWorkOptions {
  deps: SessionDeps;
  tenant: string;
  repo: Repository;
  view: TenantView;
  log: Logger;
  server: string;
  /** The key that the agent proved itself by. */
  publicKey: string;
  /** Of the store when the session began. */
  incarnation: string;
  hold: LiveHold;
  control: () => ControlSession;
}

/**
 * The work of an admitted session: what its agent is told and what is stored of what it reports, each fenced by the hold
 * on the live key.
 */
export class SessionWork {
  readonly server: string;
  readonly #o: SessionWorkOptions;
  readonly #feed: DesiredFeed;
  readonly #intake: Intake;
  readonly #removals: RemovalHold;
  readonly #events: SessionEvents;
  #isOver = false;
  #cancelCensus: (() => void) | undefined;

  constructor(options: SessionWorkOptions) {
    const { deps, tenant, repo, view, log, server, incarnation, hold, control } = options;
    const { store, mirror, clock, unsealer, metrics } = deps;
    this.#o = options;
    this.server = server;
    this.#feed = new DesiredFeed({
      mirror,
      view,
      clock,
      server,
      incarnation,
      project: (it) => project(it, unsealer),
      out: {
        snapshot: (position, items, keep) => {
          metrics.desired.inc({ form: 'snapshot' });
          control().snapshot(position, items, keep);
        },
        delta: (from, to, put, drop) => {
          metrics.desired.inc({ form: 'delta' });
          control().delta(from, to, put, drop);
        },
      },
      unopened: (it, message) => void this.#notSent(it, message),
      failed: (error) => {
        log.error({ err: error }, 'Desired set could not be made');
        control().close('Internal error', closeCodes.failed);
      },
      silent: () => control().close('The desired set was not stored in time'),
    });
    this.#events = new SessionEvents({ ...deps, log, view, fence: () => hold.fence() });
    this.#intake = new Intake({
      server,
      repo,
      view,
      mirror,
      clock,
      fence: () => hold.fence(),
      stored: (it, report) => this.#events.reported(it, report),
      fenced: () => hold.fenced(),
    });
    this.#removals = new RemovalHold({ store, view, tenant, server });
  }

  /** Tells the agent its desired set, once it is known what of another history it is to keep. */
  begin(rewound: boolean): void {
    if (!this.#removals.begin(rewound)) this.#feed.start();
    else
      this.#cancelCensus = this.#o.deps.clock.timer(limits.hold.reportMs, () =>
        this.#o.control().close('The complete report did not come in time'),
      );
  }

  async report(report: Report): Promise<Rejection[]> {
    const rejected = await this.#intake.take(report.items);
    const { reports } = this.#o.deps.metrics;
    reports.inc({ result: 'stored' }, report.items.length - rejected.length);
    for (const { why } of rejected) reports.inc({ result: why });
    const fence = this.#o.hold.fence();
    if (fence === undefined) return rejected;
    const census = await this.#removals.take(report, fence);
    if (census !== undefined) this.#startHolding(census);
    return rejected;
  }

  applied(): void {
    this.#feed.applied();
  }

  needSnapshot(): void {
    this.#feed.needSnapshot();
  }

  engine(state: EngineState): void {
    this.#o.hold.describe(state);
  }

  /** An object of the tenant changed that may be of this server. */
  changed(change: ObjectChange): void {
    if (change.kind === 'assignment' && change.part === 'desired') this.#feed.changed(change.id);
    else if (change.kind === 'server' && change.id === this.server) this.#serverChanged();
  }

  keyChanged(change: KeyChange): void {
    if (change.key === keys.agent(this.#o.tenant, this.server)) this.#o.hold.changed(change);
    else if (this.#removals.isConfirmedBy(change)) void this.#releaseHeld();
  }

  /** Nothing more is told. */
  stop(): void {
    this.#isOver = true;
    this.#cancelCensus?.();
  }

  /** Gives the server up. */
  async close(): Promise<void> {
    this.#feed.stop();
    await this.#o.hold.release();
    await this.#events[Symbol.asyncDispose]();
  }

  #startHolding({ keep, isNew }: { keep: string[]; isNew: boolean }): void {
    this.#cancelCensus?.();
    this.#feed.start(keep);
    if (!isNew) return;
    this.#o.log.error({ held: keep.length }, 'Removals are held since the store was rewound');
    this.#events.record('server', this.server, {
      type: 'warning',
      reason: 'RemovalsHeld',
      message: `The store was rewound and does not know ${keep.length} of the instances here: they stay until confirmed`,
    });
  }

  async #releaseHeld(): Promise<void> {
    this.#feed.start();
    const fence = this.#o.hold.fence();
    if (fence === undefined) return; // the next session finds the confirmation
    try {
      await this.#removals.drop(fence);
    } catch (error) {
      if (!isUnavailable(error)) throw error; // as above
    }
  }

  #serverChanged(): void {
    const server = this.#o.view.get('server', this.server);
    if (server === undefined) this.#o.control().goodbye('retired', limits.refusal.unknownMs);
    else if (server.desired.agent_public_key !== this.#o.publicKey)
      this.#o.control().goodbye('The key of the server was replaced', limits.refusal.unauthorizedMs);
    else this.#o.control().settings({ logRetentionDays: server.desired.log_retention_days });
  }

  /** Says of an assignment that it is kept out of the set, unless the agent has reported that very generation. */
  async #notSent(seen: Assignment, message: string): Promise<void> {
    const { id, generation } = seen.meta;
    if (seen.observed?.observedGeneration === generation) return;
    const { deps, repo, hold, log } = this.#o;
    this.#events.record('application', seen.desired.workload_id, {
      type: 'warning',
      reason: 'SecretUnavailable',
      message,
    });
    try {
      const it = await repo.get('assignment', id);
      const fence = hold.fence();
      if (it === undefined || fence === undefined || it.observed?.observedGeneration === it.meta.generation) return;
      await repo.observe<'assignment'>(it, notSent(it, message, deps.clock.now()), [fence]);
    } catch (error) {
      if (!isUnavailable(error) && !isConflict(error)) log.error({ err: error, assignment: id }, 'Not reported');
      deps.clock.timer(limits.intake.retryMs, () => this.#isOver || void this.#notSent(seen, message));
    }
  }
}
