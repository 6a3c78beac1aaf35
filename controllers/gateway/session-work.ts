import type { Logger } from 'pino';
import type { ControlSession, Rejection, Report } from '../../agent-protocol/control-session.ts';
import type { Addresses, AskParams, CallParams, EngineState, UpdateFailure } from '../../agent-protocol/messages.ts';
import { closeCodes } from '../../agent-protocol/wire.ts';
import { portPolicyOf } from '../../store/direct-ports.ts';
import { isConflict, isUnavailable } from '../../store/errors.ts';
import { presentEra } from '../../store/era.ts';
import { keys } from '../../store/keys.ts';
import type { KeyChange, ObjectChange, TenantView } from '../../store/mirror.ts';
import type { Repository } from '../../store/repo.ts';
import { isKind } from '../../store/resource.ts';
import type { ReadonlyResource } from '../../store/resource.ts';
import { settingsOf } from '../../store/settings.ts';
import { updateFor } from './agent-update.ts';
import { DesiredFeed } from './desired-feed.ts';
import { Intake } from './intake.ts';
import { KeptLogs } from './kept-logs.ts';
import { limits } from './limits.ts';
import type { LiveHold } from './live-hold.ts';
import { notSent } from './observed.ts';
import { Projection } from './projection.ts';
import type { Unsendable } from './projection.ts';
import { RegistryAccesses } from './registry-accesses.ts';
import { RemovalHold } from './removal-hold.ts';
import { ReturnableImages } from './returnable-images.ts';
import type { SessionDeps } from './session-deps.ts';
import { signedAddresses } from './transfers.ts';
import { SessionEvents } from './session-events.ts';

type Assignment = ReadonlyResource<'assignment'>;

/** The session that the work belongs to. */
export interface SessionWorkOptions {
  deps: SessionDeps;
  tenant: string;
  repo: Repository;
  view: TenantView;
  log: Logger;
  server: string;
  /** The capabilities in the agent's hello. */
  capabilities: ReadonlySet<string>;
  /** The version in it. */
  agentVersion: string;
  /** The public key by which the agent proved itself. */
  publicKey: string;
  /** The result of `presentHistory` when the session began: the agent keeps it beside its set. */
  incarnation: string;
  hold: LiveHold;
  control: () => ControlSession;
}

/**
 * The work of an admitted session: sends its agent the desired set, and stores the agent's reports, fenced by the hold
 * on the live key.
 */
export class SessionWork {
  readonly server: string;
  readonly #options: SessionWorkOptions;
  readonly #projection: Projection;
  readonly #feed: DesiredFeed;
  readonly #intake: Intake;
  readonly #removals: RemovalHold;
  readonly #events: SessionEvents;
  /** Absent for an agent without the capability `images.keep`. */
  readonly #images: ReturnableImages | undefined;
  /** Absent for an agent without the capability `logs.keep`. */
  readonly #logs: KeptLogs | undefined;
  /** Absent for an agent without the capability `registry.access`. */
  readonly #registries: RegistryAccesses | undefined;
  #isOver = false;
  #cancelCensus: (() => void) | undefined;

  constructor(options: SessionWorkOptions) {
    const { deps, tenant, repo, view, log, server, capabilities, incarnation, hold, control } = options;
    const { store, mirror, clock, unsealer, metrics } = deps;
    this.#options = options;
    this.server = server;
    this.#projection = new Projection({ view, unsealer, capabilities });
    this.#feed = new DesiredFeed({
      mirror,
      view,
      clock,
      server,
      incarnation,
      projection: this.#projection,
      out: {
        snapshot: (messages) => {
          metrics.desired.inc({ form: 'snapshot' });
          control().snapshot(messages);
        },
        delta: (messages) => {
          metrics.desired.inc({ form: 'delta' });
          control().delta(messages);
        },
      },
      unsendable: (it, why) => void this.#notSent(it, why),
      failed: (error) => {
        log.error(
          { err: error },
          'Cannot make the desired set of a server: its session is closed, and the agent connects again',
        );
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
    this.#removals = new RemovalHold({ store, view, tenant, server, era: () => presentEra(mirror) });
    if (capabilities.has('images.keep'))
      this.#images = new ReturnableImages({
        view,
        server,
        send: (images, whole) => control().keepImages(images, whole),
      });
    if (capabilities.has('logs.keep'))
      this.#logs = new KeptLogs({ view, server, send: (keep) => control().keepLogs(keep) });
    if (capabilities.has('registry.access'))
      this.#registries = new RegistryAccesses({
        view,
        unsealer,
        server,
        send: (workloads, whole) => control().registryAccess(workloads, whole),
      });
  }

  /**
   * Sends the agent its desired set. If nothing proves that the agent's set is of the same history, its complete report
   * must come first: the agent is to keep what the store does not know of it.
   */
  begin(isProven: boolean): void {
    this.#registries?.begin(); // before the set: its items may need it
    this.#images?.begin(); // before the set: the agent cleans up once it has the set
    if (!this.#removals.begin(isProven)) this.#start();
    else
      this.#cancelCensus = this.#options.deps.clock.timer(limits.hold.reportMs, () =>
        this.#options.control().close('The complete report did not come in time'),
      );
  }

  async report(report: Report): Promise<Rejection[]> {
    await this.#takeCensus(report);
    const rejected = await this.#intake.take(report.items);
    const { reports } = this.#options.deps.metrics;
    reports.inc({ result: 'stored' }, report.items.length - rejected.length);
    for (const { why } of rejected) reports.inc({ result: why });
    return rejected;
  }

  opened(params: CallParams): CallParams {
    return this.#projection.call(params);
  }

  /** See {@link signedAddresses}. */
  ask(params: AskParams): Promise<Addresses> {
    const { view, deps } = this.#options;
    const { unsealer, signer } = deps;
    return signedAddresses({ view, unsealer, signer, server: this.server }, params);
  }

  applied(): void {
    this.#feed.applied();
  }

  /** See {@link DesiredFeed.needSnapshot}. */
  needSnapshot(): boolean {
    return this.#feed.needSnapshot();
  }

  state(engine: EngineState, update: UpdateFailure | undefined): void {
    this.#options.hold.describe(engine, update);
  }

  /** An object of the tenant changed that may concern this server. */
  changed(change: ObjectChange): void {
    const it = change.after ?? change.before;
    const isDeployment = it !== undefined && isKind(it, 'deployment');
    this.#logs?.changed(change.kind, isDeployment ? it.desired.application_id : change.id);
    if (change.kind === 'assignment' && change.part === 'desired') this.#feed.changed(change.id);
    else if (change.kind === 'deployment') this.#deploymentChanged(change);
    else if (change.kind === 'function_version') this.#versionChanged(change);
    else if (change.kind === 'application') this.#registries?.applicationChanged(change.id);
    else if (change.kind === 'registry') this.#registries?.registryChanged(change.id);
    else if ((change.kind === 'server' && change.id === this.server) || change.kind === 'settings')
      this.#serverChanged();
  }

  keyChanged(change: KeyChange): void {
    if (change.key === keys.agent(this.#options.tenant, this.server)) this.#options.hold.changed(change);
    else if (this.#removals.isConfirmedBy(change)) void this.#releaseHeld();
  }

  /** Ends retries and timers. */
  stop(): void {
    this.#isOver = true;
    this.#cancelCensus?.();
  }

  /** Stops the feed, writes the last events, and releases the server. `lost`: see `LiveHold.release`. */
  async close(lost?: string): Promise<void> {
    this.#feed.stop();
    await this.#events[Symbol.asyncDispose](); // under the live key, which it holds until it is released
    await this.#options.hold.release(lost);
  }

  /** Runs before the reports are stored, so that the set does not wait for the store. */
  async #takeCensus(report: Report): Promise<void> {
    const census = await this.#removals.take(report, this.#options.hold.fence());
    if (census === 'unstored') this.#options.control().close('What the agent is to keep could not be stored');
    else if (census !== undefined) this.#startHolding(census);
  }

  #startHolding({ keep, isNew }: { keep: string[]; isNew: boolean }): void {
    this.#cancelCensus?.();
    if (keep.length === 0) this.#start();
    // The logs of what is held stay with it: the agent is not told what there is.
    else this.#feed.start(keep);
    if (!isNew) return;
    this.#options.log.error(
      { held: keep.length },
      'Removals are held, as the store does not know what this agent runs: confirm them by `setpoint confirm-removals SERVER`',
    );
    this.#events.record('server', this.server, {
      type: 'warning',
      reason: 'RemovalsHeld',
      message: `The store does not know ${keep.length} of the instances on this server, as after a restore. They stay until they are confirmed: setpoint confirm-removals SERVER`,
    });
  }

  /** Nothing is held: what the store does not know is gone. */
  #start(): void {
    this.#logs?.begin();
    this.#feed.start();
  }

  async #releaseHeld(): Promise<void> {
    this.#cancelCensus?.();
    this.#start();
    // If the record stays, the next session finds the confirmation in it.
    if (!(await this.#removals.release(this.#options.hold.fence())))
      this.#options.control().close('The confirmed removals could not be recorded');
  }

  #deploymentChanged({ before, after }: ObjectChange): void {
    const it = after ?? before;
    if (it !== undefined && isKind(it, 'deployment')) this.#images?.changed(it.desired.application_id);
  }

  #versionChanged({ before, after }: ObjectChange): void {
    const it = after ?? before;
    if (it !== undefined && isKind(it, 'function_version')) this.#images?.changed(it.desired.function_id);
  }

  #serverChanged(): void {
    const server = this.#options.view.get('server', this.server);
    if (server === undefined) this.#options.control().goodbye('The server was deleted', limits.refusal.unknownMs);
    else if (server.desired.agent_public_key !== this.#options.publicKey)
      this.#options.control().goodbye('Another agent has joined as this server', limits.refusal.unauthorizedMs);
    else
      this.#options.control().settings({
        logRetentionDays: server.desired.log_retention_days,
        ports: portPolicyOf(server.desired, this.#options.deps.ownPorts),
        registries: settingsOf(this.#options.view).registries,
        update: updateFor(server, this.#options),
      });
  }

  /** Records that an assignment is left out of the set, unless the agent has reported its present generation. */
  async #notSent(seen: Assignment, why: Unsendable): Promise<void> {
    const { id, generation } = seen.meta;
    if (seen.observed?.observedGeneration === generation) return;
    const { deps, repo, hold, log } = this.#options;
    this.#events.record(seen.desired.workload_kind, seen.desired.workload_id, {
      type: 'warning',
      reason: why.code === 'agent_outdated' ? 'AgentOutdated' : 'SecretUnavailable',
      message: why.message,
    });
    try {
      const it = await repo.get('assignment', id);
      const fence = hold.fence();
      if (it === undefined || fence === undefined || it.observed?.observedGeneration === it.meta.generation) return;
      await repo.observe<'assignment'>(it, notSent(it, why, deps.clock.now()), [fence]);
    } catch (error) {
      if (!isUnavailable(error) && !isConflict(error))
        log.error({ err: error, assignment: id }, 'Cannot record why an assignment is not sent to its agent');
      deps.clock.timer(limits.intake.retryMs, () => this.#isOver || void this.#notSent(seen, why));
    }
  }
}
