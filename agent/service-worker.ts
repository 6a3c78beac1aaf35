import type PQueue from 'p-queue';
import type { Logger } from 'pino';
import type { WirePhase, WireReport } from '../agent-protocol/assignment.ts';
import type { Clock } from '../agent-protocol/clock.ts';
import { wait } from '../agent-protocol/clock.ts';
import { deadline } from './deadline.ts';
import type { DesiredSet } from './desired.ts';
import { containerSpec } from './container-spec.ts';
import { condemn, imageKey } from './drift.ts';
import { EventLog } from './event-log.ts';
import type { ImageStore } from './image-store.ts';
import type { Ledger } from './ledger.ts';
import type { Capture } from './logs/capture.ts';
import type { Memory, Now, ServiceItem } from './memory.ts';
import { blankMemory, remember } from './memory.ts';
import type { Actual, Observer } from './observer.ts';
import type { Action, World } from './plan.ts';
import { keeper, plan } from './plan.ts';
import type { Prober } from './probe.ts';
import type { Publication } from './publication.ts';
import type { Subject } from './readiness.ts';
import { Readiness } from './readiness.ts';
import type { ContainerRuntime } from './runtime/runtime.ts';
import { labels } from './runtime/runtime.ts';
import { laterPhase, serviceReport } from './service-report.ts';
import { stepEvent } from './step-event.ts';
import { stepFailure } from './step-failure.ts';

/** What all service workers of an agent share. */
export interface ServiceDeps {
  runtime: ContainerRuntime;
  server: string;
  desired: DesiredSet;
  observer: Observer;
  ledger: Ledger;
  images: ImageStore;
  publication: Publication;
  capture: Capture;
  prober: Prober;
  /** Bounds how many containers are made and started at a time: more at once makes each of them slower. */
  starts: PQueue;
  networks: Set<string>;
  clock: Clock;
  log: Logger;
  /** Tells the events of this process from those of another one. */
  eventSource: string;
  reported: (report: WireReport) => void;
}

const callMs = 60_000;
const pullMs = 30 * 60_000;
/** Between taking an instance out of the ports and asking it to stop: requests under way find their end. */
const drainMs = 250;
const faultMs = 5_000;
const lastOutputLength = 1_000;

/** Reconciles one service assignment: one step at a time, the newest desired state wins. */
export class ServiceWorker {
  readonly id: string;
  readonly #deps: ServiceDeps;
  readonly #readiness: Readiness;
  readonly #withdrawn = new Set<string>();
  #memory: Memory = blankMemory;
  #desired: ServiceItem | undefined;
  #phase: { generation: number; phase: WirePhase } | undefined;
  #report: WireReport | undefined;
  #lastOutput: { series: string; text: string | undefined } | undefined;
  #step = new AbortController();
  readonly #events: EventLog;
  /** Containers of which it was told that they are not as desired. */
  readonly #driftTold = new Set<string>();
  /** The container that stood for the assignment when it was last looked at. */
  #kept: string | undefined;
  #looked = false;
  #woken = false;
  #wake: () => void = () => undefined;
  readonly #closing = new AbortController();
  #loop: Promise<void> | undefined;

  constructor(id: string, deps: ServiceDeps) {
    this.id = id;
    this.#deps = deps;
    this.#events = new EventLog(deps.eventSource);
    this.#readiness = new Readiness({
      clock: deps.clock,
      prober: deps.prober,
      changed: () => this.wake(),
      suspected: () => this.#suspect(),
    });
  }

  get report(): WireReport | undefined {
    return this.#report;
  }

  /** It was looked at since the agent started: what is told of it is its state, not a lack of knowledge. */
  get settled(): boolean {
    return this.#looked && this.#readiness.settled;
  }

  /** The control plane has the events that this report carried. */
  acknowledged(report: WireReport): void {
    this.#events.acknowledge(report.events);
    if (report.events !== undefined) this.wake();
  }

  start(): void {
    this.#loop ??= this.#run();
  }

  /** Something may have changed. */
  wake(): void {
    this.#woken = true;
    this.#wake();
  }

  /** The desired state changed: what is being done for the former one is given up. */
  desire(desired: ServiceItem | undefined): void {
    const before = this.#desired;
    this.#desired = desired;
    const { image } = this.#memory;
    if (before === desired || (before !== undefined && desired !== undefined && sameWork(before, desired, image))) {
      if (before !== undefined && desired !== undefined && image?.of === imageKey(before))
        this.#memory = { ...this.#memory, image: { ...image, of: imageKey(desired) } };
      this.wake();
      return;
    }
    // A new wish is a new chance, also for a container that was to go.
    const { baseline, created, policy, run, restarts, unstartable } = this.#memory;
    this.#memory = { ...blankMemory, image, baseline, created, policy, run, restarts, unstartable };
    this.#withdrawn.clear();
    this.#step.abort(new Error('Another state is desired'));
    this.wake();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#closing.abort(new Error('The agent is stopping'));
    this.#step.abort(this.#closing.signal.reason);
    this.wake();
    await this.#loop;
    this.#readiness[Symbol.dispose]();
  }

  async #run(): Promise<void> {
    while (!this.#closing.signal.aborted) {
      this.#woken = false;
      let action: Action | undefined;
      try {
        action = this.#next();
      } catch (error) {
        // A bug of ours must cost nobody else's service.
        this.#deps.log.error({ err: error, assignment: this.id }, 'Worker failed');
        await this.#sleep(this.#deps.clock.monotonic() + faultMs);
        continue;
      }
      if (action === undefined || action.do === 'wait') {
        await this.#sleep(action?.until);
        continue;
      }
      this.#step = new AbortController();
      try {
        await this.#perform(action, this.#step.signal);
        if (action.do !== 'inspect') this.#memory = { ...this.#memory, failure: undefined };
      } catch (error) {
        await this.#failed(action, error);
      }
    }
  }

  /** Looks, tells and decides. While the engine does not answer, only health is news. */
  #next(): Action | undefined {
    const now = this.#now();
    if (!this.#deps.observer.reachable) {
      if (this.#looked) this.#show(this.#world(now));
      return undefined;
    }
    const before = this.#world(now);
    const seen = remember(this.#memory, keeper(before) ?? before.actual[0], now);
    this.#memory = condemn(seen, before.desired, before.actual);
    const world = this.#world(now);
    this.#readiness.observe(subjectOf(world));
    const action = plan({ ...world, ready: this.#readiness.health.ready });
    if (action !== undefined) this.#tellEvent(world, action);
    // What failed is not needed any more.
    else if (this.#memory.failure !== undefined) this.#memory = { ...this.#memory, failure: undefined };
    this.#kept = keeper(world)?.container.id ?? (world.actual.length > 0 ? this.#kept : undefined);
    // What a container is doing shows only in its details: nothing is told of it before.
    this.#looked ||= action?.do !== 'inspect';
    if (this.#looked) this.#show({ ...world, memory: this.#memory });
    return action;
  }

  /** What makes a process unreachable need not show in a list: it may have lost its network. */
  #suspect(): void {
    const id = this.#memory.run?.container;
    if (id !== undefined) this.#deps.observer.refresh(id).catch(() => undefined);
  }

  #show(world: World): void {
    this.#publish(world);
    if (this.#hasLastOutput(world)) this.#tell(world);
  }

  #world(now: Now): World {
    const { desired, observer, networks } = this.#deps;
    const network = this.#desired?.spec.network;
    return {
      desired: this.#desired,
      tombstone: this.#desired === undefined ? desired.tombstone(this.id) : undefined,
      complete: desired.confirmed,
      actual: observer.of(this.id),
      memory: this.#memory,
      networkReady: network !== undefined && networks.has(network),
      ready: this.#readiness.health.ready,
      withdrawn: this.#withdrawn,
      now,
    };
  }

  /** The ports lead to the process that runs and is ready, also to one that is to go: until it is withdrawn. */
  #publish(world: World): void {
    const { publication } = this.#deps;
    const { desired } = world;
    const running = world.actual.find(
      (it) => it.container.state === 'running' && !this.#withdrawn.has(it.container.id),
    );
    if (desired === undefined || desired.run === 'stopped') {
      if (running === undefined) publication.retract(this.id);
      return;
    }
    const { publish_port: port, port: inside, network } = desired.spec;
    if (port === undefined) {
      publication.retract(this.id);
      return;
    }
    const address = running?.detail?.addresses[network] ?? '';
    const ready = this.#readiness.health.ready && address !== '';
    const backend = ready ? { address, port: inside ?? port } : undefined;
    publication.offer(this.id, { workload: desired.workload_id, port, backend });
  }

  #tell(world: World): void {
    const { publication } = this.#deps;
    // Neither wanted nor known not to be: there is nothing that could be said of it.
    if (world.desired === undefined && world.tombstone === undefined && !world.complete) return;
    const report = serviceReport(this.id, {
      world,
      health: this.#readiness.health,
      published: world.desired?.spec.publish_port === undefined || publication.isPublished(this.id),
      portProblem: publication.problem(this.id),
      lastLines: this.#lastOutput?.text ?? '',
    });
    const events = this.#events.pending;
    if (events !== undefined) report.events = events;
    const before = this.#phase?.generation === report.generation ? this.#phase.phase : report.phase;
    report.phase = laterPhase(before, report.phase);
    this.#phase = { generation: report.generation, phase: report.phase };
    if (this.#report !== undefined && JSON.stringify(this.#report) === JSON.stringify(report)) return;
    this.#report = report;
    this.#deps.reported(report);
  }

  #tellEvent(world: World, action: Action): void {
    const event = stepEvent(world, action, this.#kept, this.#driftTold);
    if (event === undefined) return;
    this.#events.add(event);
    const [first] = world.actual;
    if (event.drift && first !== undefined) this.#driftTold.add(first.container.id);
  }

  /**
   * Whether the output before the last exit is known, which takes a moment: the exit is told with it. Taken once per
   * series of exits, so that the message does not change with every try.
   */
  #hasLastOutput({ desired, memory }: World): boolean {
    const { exit } = memory;
    if (desired === undefined || exit === undefined) return true;
    const series = `${desired.generation} ${exit.container} ${exit.code}`;
    if (this.#lastOutput?.series === series) return this.#lastOutput.text !== undefined;
    const output: { series: string; text: string | undefined } = { series, text: undefined };
    this.#lastOutput = output;
    const { capture } = this.#deps;
    void capture.finished(exit.container, this.#closing.signal).then(() => {
      output.text = capture.lastLines(this.id).join('\n').slice(-lastOutputLength);
      this.wake();
    });
    return false;
  }

  async #perform(action: Exclude<Action, { do: 'wait' }>, signal: AbortSignal): Promise<void> {
    const { runtime, observer, ledger, capture, clock, log } = this.#deps;
    log.debug({ assignment: this.id, action }, 'Step');
    switch (action.do) {
      case 'inspect':
        return observer.refresh(action.id);
      case 'resolveImage':
        return this.#resolveImage(signal);
      case 'ensureNetwork':
        return this.#ensureNetwork(signal);
      case 'create':
        return this.#create(action.name, signal);
      case 'start':
        return this.#start(action.id, signal);
      case 'withdraw': {
        this.#withdrawn.add(action.id);
        this.#memory = { ...this.#memory, stopping: action.id };
        if (await this.#deps.publication.withdraw(this.id)) await wait(clock, drainMs, signal);
        return;
      }
      case 'setRestart': {
        using limit = deadline(clock, callMs, 'Setting the restart policy', signal);
        await runtime.setRestart(action.id, action.restart, limit.signal);
        this.#memory = { ...this.#memory, policy: { container: action.id, restart: action.restart } };
        return;
      }
      case 'unpause': {
        using limit = deadline(clock, callMs, 'Unpausing a container', signal);
        await runtime.unpause(action.id, limit.signal);
        await observer.refresh(action.id);
        return;
      }
      case 'stop': {
        using limit = deadline(clock, callMs + action.graceSeconds * 1000, 'Stopping a container', signal);
        await runtime.stop(action.id, action.graceSeconds, limit.signal);
        await observer.refresh(action.id);
        return;
      }
      case 'remove': {
        using limit = deadline(clock, callMs, 'Removing a container', signal);
        await capture.finished(action.id, limit.signal);
        await runtime.remove(action.id, limit.signal);
        observer.noteRemoved(action.id);
        this.#withdrawn.delete(action.id);
        this.#driftTold.delete(action.id);
        if (this.#kept === action.id) this.#kept = undefined;
        await ledger.gone(action.id);
        return;
      }
    }
  }

  async #resolveImage(signal: AbortSignal): Promise<void> {
    const desired = this.#wanted();
    using limit = deadline(this.#deps.clock, pullMs, 'Pulling an image', signal);
    const image = await this.#deps.images.resolve(desired.spec.image, desired.spec.image_digest, limit.signal);
    this.#memory = { ...this.#memory, image: { ...image, of: imageKey(desired) } };
  }

  async #ensureNetwork(signal: AbortSignal): Promise<void> {
    const { runtime, server, networks, clock } = this.#deps;
    const { spec } = this.#wanted();
    using limit = deadline(clock, callMs, 'Making a network', signal);
    await runtime.ensureNetwork(spec.network, { [labels.server]: server }, limit.signal);
    networks.add(spec.network);
  }

  async #create(name: string, signal: AbortSignal): Promise<void> {
    const { runtime, server, observer, ledger, clock, starts } = this.#deps;
    const { image } = this.#memory;
    if (image === undefined) throw new Error(`Cannot create container ${name} before its image is known`);
    const spec = containerSpec(this.#wanted(), server, name, image.id);
    await ledger.intend(name, this.id);
    await starts.add(async () => {
      signal.throwIfAborted();
      using limit = deadline(clock, callMs, 'Creating a container', signal);
      const id = await runtime.create(spec, limit.signal);
      this.#memory = { ...this.#memory, created: id, policy: { container: id, restart: 'no' } };
      observer.note({ id, name, labels: spec.labels, state: 'created', imageId: spec.image });
      // Its intent is on disk, so a crash before this is recorded loses nothing: the record may be written meanwhile.
      const recorded = ledger.made(id, name);
      await Promise.all([recorded, this.#startNow(id, limit.signal)]);
    });
  }

  async #start(id: string, signal: AbortSignal): Promise<void> {
    await this.#deps.starts.add(() => {
      signal.throwIfAborted();
      return this.#startNow(id, signal);
    });
  }

  async #startNow(id: string, signal: AbortSignal): Promise<void> {
    const { runtime, observer, capture, clock } = this.#deps;
    const desired = this.#wanted();
    using limit = deadline(clock, callMs, 'Starting a container', signal);
    await capture.attach(id, { workload: desired.workload_id, instance: this.id }, limit.signal);
    try {
      await runtime.start(id, limit.signal);
    } catch (error) {
      if (!signal.aborted) this.#memory = { ...this.#memory, unstartable: id };
      throw error;
    }
    await observer.refresh(id);
  }

  #wanted(): ServiceItem {
    if (this.#desired === undefined) throw new Error(`Assignment ${this.id} is not desired any more`);
    return this.#desired;
  }

  /** An outcome that is not known is looked up; a failure is told and tried again later. */
  async #failed(action: Action, error: unknown): Promise<void> {
    const { observer, networks, clock, log } = this.#deps;
    const aborted = this.#step.signal.aborted;
    if (!aborted) {
      const failure = stepFailure(error, this.#memory.failure, clock.monotonic());
      log.warn({ err: error, assignment: this.id, action: action.do }, 'Step failed');
      this.#memory = { ...this.#memory, failure };
      if (action.do === 'create' || action.do === 'start') {
        if (this.#desired !== undefined) networks.delete(this.#desired.spec.network);
        if (failure.code === 'image_not_found') this.#memory = { ...this.#memory, image: undefined };
      }
    }
    // While the engine does not answer there is nothing to do: its return wakes every worker.
    await observer.relist().catch(() => undefined);
  }

  #now(): Now {
    return { monotonic: this.#deps.clock.monotonic(), wall: this.#deps.clock.now() };
  }

  #sleep(until: number | undefined): Promise<void> {
    if (this.#woken || this.#closing.signal.aborted) return Promise.resolve();
    return new Promise((resolve) => {
      const cancel =
        until === undefined
          ? () => undefined
          : this.#deps.clock.timer(Math.max(0, until - this.#deps.clock.monotonic()), () => this.wake());
      this.#wake = () => {
        cancel();
        this.#wake = () => undefined;
        resolve();
      };
    });
  }
}

/**
 * The change asks for nothing that is under way to be given up. That it names the image which was found for it is no
 * other wish: it is the answer to the report of that.
 */
function sameWork(a: ServiceItem, b: ServiceItem, image: Memory['image']): boolean {
  const found = a.spec.image_digest ?? (image?.of === imageKey(a) ? image.digest : undefined);
  return (
    a.run === b.run &&
    a.spec_hash === b.spec_hash &&
    a.spec.restart_token === b.spec.restart_token &&
    (a.spec.image_digest === b.spec.image_digest || found === b.spec.image_digest)
  );
}

function subjectOf(world: World): Subject | undefined {
  const { desired, memory, actual } = world;
  const running: Actual | undefined = actual.find((it) => it.container.id === memory.run?.container);
  if (desired === undefined || desired.run === 'stopped' || memory.run === undefined || running === undefined)
    return undefined;
  if (running.container.state !== 'running') return undefined;
  const { health, port } = desired.spec;
  const address = running.detail?.addresses[desired.spec.network] ?? '';
  const target = health === undefined || port === undefined ? undefined : { address, port, path: health.path };
  if (target !== undefined && address === '') return undefined;
  return { key: `${memory.run.container} ${memory.run.startedAt}`, since: memory.run.since, health: target };
}
