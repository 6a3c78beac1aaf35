import type { WireAssignment, WirePhase, WireReport } from '../../agent-protocol/assignment.ts';
import type { Worker, WorkerDeps } from '../desired/worker.ts';
import { condemn, imageKey } from './drift.ts';
import { EventLog } from './event-log.ts';
import { LastOutput } from './last-output.ts';
import type { Memory, Now, ServiceItem } from './memory.ts';
import { blankMemory, remember } from './memory.ts';
import type { Action, World } from './plan.ts';
import { keeper, plan } from './plan.ts';
import type { Prober } from '../runtime/probe.ts';
import { Readiness } from './readiness.ts';
import { readinessSubject } from './readiness-subject.ts';
import { laterPhase, serviceReport } from './service-report.ts';
import type { StepDeps, StepSubject } from './service-steps.ts';
import { performStep } from './service-steps.ts';
import { stepEvent } from './step-event.ts';
import { stepFailure } from './step-failure.ts';
import type { Overflow } from '../engine/storage-watch.ts';
import type { VolumeWriters } from '../volumes/writers.ts';
import { mountedVolumes, writtenVolumes } from './container-spec.ts';

/** What all service workers of an agent share. */
export interface ServiceDeps extends StepDeps, WorkerDeps {
  prober: Prober;
  writers: VolumeWriters;
  /** Id of this process in events, see `WireEvents.source`. */
  eventSource: string;
  /** Called when a worker has become settled: that may change no report. */
  settled: () => void;
}

const faultMs = 5_000;

/** Reconciles one service assignment: one step at a time, the newest desired state wins. */
export class ServiceWorker implements Worker {
  readonly id: string;
  readonly #deps: ServiceDeps;
  readonly #readiness: Readiness;
  readonly #withdrawn = new Set<string>();
  #memory: Memory = blankMemory;
  #desired: ServiceItem | undefined;
  #phase: { generation: number; phase: WirePhase } | undefined;
  #report: WireReport | undefined;
  #step = new AbortController();
  readonly #events: EventLog;
  readonly #lastOutput: LastOutput;
  readonly #subject: StepSubject;
  /** Containers whose drift was reported. */
  readonly #driftReported = new Set<string>();
  /** The last reported notice about its port. */
  #lastNotice: string | undefined;
  /** The container that matched the assignment at the last observation. */
  #kept: string | undefined;
  #mayWrite = true;
  #looked = false;
  #wasSettled = false;
  #woken = false;
  #wake: () => void = () => undefined;
  readonly #closing = new AbortController();
  #loop: Promise<void> | undefined;

  constructor(id: string, deps: ServiceDeps) {
    this.id = id;
    this.#deps = deps;
    this.#events = new EventLog(deps.eventSource);
    this.#lastOutput = new LastOutput(id, deps.capture, () => this.wake());
    this.#subject = {
      id,
      desired: () => this.#wanted(),
      image: () => this.#memory.image,
      learn: (change) => void (this.#memory = { ...this.#memory, ...change }),
      withdrawn: (container) => void this.#withdrawn.add(container),
      removed: (container) => this.#removed(container),
    };
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

  /** True once the assignment was inspected since the agent started, so that the report describes a known state. */
  get settled(): boolean {
    return this.#looked && this.#readiness.settled;
  }

  /** Always false: a service may write again. */
  readonly ended = false;

  /** A container wrote more than its limit. */
  overflowed(overflow: Overflow): void {
    this.#memory = { ...this.#memory, overflow };
    this.wake();
  }

  /** A volume is there: a container that could not be made for the lack of it is made now. */
  appeared(volume: string): void {
    const { failure } = this.#memory;
    if (failure?.code !== 'data_lost' || this.#desired === undefined) return;
    if (!mountedVolumes(this.#desired).some(({ volume: mounted }) => mounted === volume)) return;
    this.#memory = { ...this.#memory, failure: undefined };
    this.wake();
  }

  /** The control plane has stored the events of this report. */
  acknowledged(report: WireReport): void {
    this.#events.acknowledge(report.events);
    if (report.events !== undefined) this.wake();
  }

  start(): void {
    this.#loop ??= this.#run();
  }

  /** Something may have changed: the worker checks again. */
  wake(): void {
    this.#woken = true;
    this.#wake();
  }

  /** Sets the desired state. If it asks for other work, the step under way is aborted. */
  desire(item: WireAssignment | undefined): void {
    const desired = item !== undefined && isService(item) ? item : undefined;
    const before = this.#desired;
    this.#desired = desired;
    this.#claim();
    const { image } = this.#memory;
    if (before === desired || (before !== undefined && desired !== undefined && sameWork(before, desired, image))) {
      if (before !== undefined && desired !== undefined && image?.of === imageKey(before))
        this.#memory = { ...this.#memory, image: { ...image, of: imageKey(desired) } };
      this.wake();
      return;
    }
    // A changed desired state forgets earlier failures, also for a container that was to be removed.
    const { baseline, created, policy, run, restarts, unstartable } = this.#memory;
    this.#memory = { ...blankMemory, image, baseline, created, policy, run, restarts, unstartable };
    this.#withdrawn.clear();
    this.#step.abort(new Error('Another state is desired'));
    this.wake();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#closing.abort(new Error('The agent is stopping'));
    this.#step.abort(this.#closing.signal.reason);
    this.#lastOutput[Symbol.dispose]();
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
        // A bug in one worker must not end the agent and with it all other services.
        this.#deps.log.error(
          { err: error, assignment: this.id },
          'The worker of an instance failed, which is a bug: it goes on in a few seconds',
        );
        await this.#sleep(this.#deps.clock.monotonic() + faultMs);
        continue;
      }
      if (action === undefined || action.do === 'wait') {
        await this.#sleep(action?.until);
        continue;
      }
      this.#step = new AbortController();
      try {
        this.#deps.log.debug({ assignment: this.id, action }, 'Step');
        await performStep(action, this.#subject, this.#deps, this.#step.signal);
        if (action.do === this.#memory.failure?.step) this.#memory = { ...this.#memory, failure: undefined };
      } catch (error) {
        await this.#failed(action, error);
      }
    }
  }

  /** Observes, reports and returns the next step. While the engine does not answer, only health can change. */
  #next(): Action | undefined {
    const now = this.#now();
    if (!this.#deps.observer.reachable) {
      // Without a probe over the network the state is unknown: the process may have ended.
      if (this.#looked && this.#readiness.isProbedByNetwork) this.#show(this.#world(now));
      return undefined;
    }
    this.#claimVolumes();
    const before = this.#world(now);
    const seen = remember(this.#memory, keeper(before) ?? before.actual[0], now);
    this.#memory = condemn(seen, before.desired, before.actual);
    const world = this.#world(now);
    this.#readiness.observe(readinessSubject(world));
    const action = plan({ ...world, ready: this.#readiness.health.ready });
    if (action !== undefined) this.#recordEvent(world, action);
    // The failed step is no longer needed.
    else if (this.#memory.failure !== undefined) this.#memory = { ...this.#memory, failure: undefined };
    this.#kept = keeper(world)?.container.id ?? (world.actual.length > 0 ? this.#kept : undefined);
    // The state of a container shows only in its details: nothing is reported before they are known.
    this.#looked ||= action?.do !== 'inspect';
    if (this.#looked) this.#show({ ...world, memory: this.#memory });
    this.#settle();
    return action;
  }

  #settle(): void {
    const { settled } = this;
    if (settled && !this.#wasSettled) this.#deps.settled();
    this.#wasSettled = settled;
  }

  /** Claims the volumes that the service writes to while it shall run, and gives them up once no container of it runs. */
  #claimVolumes(): void {
    const desired = this.#desired?.run === 'running' ? this.#desired : undefined;
    this.#mayWrite = this.#deps.writers.claim(this.id, desired === undefined ? [] : writtenVolumes(desired));
  }

  /** A ready process does not answer. Its container may have lost its network, which only an inspection shows. */
  #suspect(): void {
    const id = this.#memory.run?.container;
    if (id !== undefined) this.#deps.observer.refresh(id).catch(() => undefined);
  }

  #show(world: World): void {
    this.#publish(world);
    // An exit is reported together with the output before it, which takes a moment to be complete.
    if (this.#lastOutput.isKnown(world.desired, world.memory.exit, world.can)) this.#sendReport(world);
  }

  #world(now: Now): World {
    const { desired, observer, networks, runtime } = this.#deps;
    return {
      desired: this.#desired,
      tombstone: this.#desired === undefined ? desired.tombstone(this.id) : undefined,
      complete: desired.confirmed && !desired.has(this.id),
      actual: observer.of(this.id),
      memory: this.#memory,
      networkReady: this.#desired?.spec.networks.every(({ name }) => networks.has(name)) ?? false,
      ready: this.#readiness.health.ready,
      mayWrite: this.#mayWrite,
      withdrawn: this.#withdrawn,
      can: runtime.can,
      now,
    };
  }

  /** Claims its ports from the moment it is desired, also while it is not known what runs. */
  #claim(): void {
    if (this.#desired?.run !== 'running') return;
    const { workload_id: workload, project_id: project } = this.#desired;
    const ports = publishedPorts(this.#desired);
    if (ports.length > 0)
      this.#deps.publication.claim(this.id, ...ports.map(({ publish: port }) => ({ workload, project, port })));
  }

  /**
   * Offers the running, ready process to its ports. A process that is to be removed stays there until its withdrawal.
   */
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
    const address = running?.detail?.addresses[desired.spec.networks[0].name] ?? '';
    const ready = this.#readiness.health.ready && address !== '';
    const of = { workload: desired.workload_id, project: desired.project_id };
    const offers = publishedPorts(desired).map(({ port, publish }) => ({
      ...of,
      port: publish,
      backend: ready ? { address, port } : undefined,
    }));
    publication.offer(this.id, ...offers);
  }

  #sendReport(world: World): void {
    const { publication } = this.#deps;
    // It is not known whether the assignment is desired: there is nothing to report.
    if (world.desired === undefined && world.tombstone === undefined && !world.complete) return;
    const report = serviceReport(this.id, {
      world,
      health: this.#readiness.health,
      published:
        world.desired === undefined || publishedPorts(world.desired).length === 0 || publication.isPublished(this.id),
      portProblem: publication.problem(this.id),
      lastLines: this.#lastOutput.text,
    });
    this.#recordNotice(publication.notice(this.id));
    const events = this.#events.pending;
    if (events !== undefined) report.events = events;
    const before = this.#phase?.generation === report.generation ? this.#phase.phase : report.phase;
    report.phase = laterPhase(before, report.phase);
    this.#phase = { generation: report.generation, phase: report.phase };
    if (this.#report !== undefined && JSON.stringify(this.#report) === JSON.stringify(report)) return;
    this.#report = report;
    this.#deps.reported(report);
  }

  #recordNotice(message: string | undefined): void {
    if (message === undefined || message === this.#lastNotice) return;
    this.#lastNotice = message;
    this.#events.add({ type: 'warning', reason: 'PortPartlyOpen', message, drift: false });
  }

  #recordEvent(world: World, action: Action): void {
    const event = stepEvent(world, action, this.#kept, this.#driftReported);
    if (event === undefined) return;
    this.#events.add(event);
    const [first] = world.actual;
    if (first !== undefined && keeper(world) === undefined) this.#driftReported.add(first.container.id);
  }

  #wanted(): ServiceItem {
    if (this.#desired === undefined) throw new Error(`Assignment ${this.id} is not desired any more`);
    return this.#desired;
  }

  #removed(container: string): void {
    this.#withdrawn.delete(container);
    this.#driftReported.delete(container);
    if (this.#kept === container) this.#kept = undefined;
  }

  /** A step failed, possibly with an effect: observes again, then records the failure, so that it is tried later. */
  async #failed(action: Action, error: unknown): Promise<void> {
    const { observer, networks, clock, log } = this.#deps;
    // While the engine does not answer, there is nothing to do: its return wakes every worker.
    const answers = await observer.relist().then(
      () => true,
      () => false,
    );
    // If the engine does not answer or the step was aborted, the step itself did not fail.
    if (!this.#step.signal.aborted && answers) {
      const failure = stepFailure(action.do, error, this.#memory.failure, clock.monotonic());
      log.warn(
        { err: error, assignment: this.id, action: action.do },
        'A step for an instance failed: the agent tries it again, less and less often',
      );
      this.#memory = { ...this.#memory, failure };
      if (action.do === 'create' || action.do === 'start') {
        for (const { name } of this.#desired?.spec.networks ?? []) networks.delete(name);
        if (failure.code === 'image_not_found') this.#memory = { ...this.#memory, image: undefined };
      }
    }
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

function isService(item: WireAssignment): item is ServiceItem {
  return item.spec.type === 'service';
}

function publishedPorts({ spec }: ServiceItem): { port: number; publish: number }[] {
  return spec.ports.flatMap(({ port, publish }) => (publish === undefined ? [] : [{ port, publish }]));
}

/**
 * True if the change needs no other work, so that the step under way can go on. A change that only names the image
 * which the agent found and reported is the same work.
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
