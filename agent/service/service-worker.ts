import type { WireAssignment, WireReport } from '../../agent-protocol/assignment.ts';
import { hostNetwork } from '../../agent-protocol/workload.ts';
import type { ServerIngress } from '../ingress/server-ingress.ts';
import type { Worker, WorkerDeps } from '../desired/worker.ts';
import { writtenVolumes } from './container-spec.ts';
import { LastOutput } from './last-output.ts';
import { Listening, listeningSubject } from './listening.ts';
import { isProxy, upstreamOf } from './proxy-service.ts';
import { died, forgivenAt, killed } from './memory.ts';
import type { Now, ServiceItem } from './memory.ts';
import type { Action, World } from './plan.ts';
import type { Prober } from '../runtime/probe.ts';
import { Readiness } from './readiness.ts';
import { readinessSubject } from './readiness-subject.ts';
import { portClaims, portOffers, publishedPorts } from './service-ports.ts';
import { ServiceReporter } from './service-reporter.ts';
import type { RuntimeEvent } from '../runtime/runtime.ts';
import type { StepDeps, StepSubject } from './service-steps.ts';
import { performStep } from './service-steps.ts';
import {
  decide,
  desire,
  drain,
  drained,
  forget,
  initialState,
  learn,
  mayHaveServed,
  observe,
  stepDone,
  stepFailed,
  volumeAppeared,
  withdraw,
} from './state.ts';
import type { Event } from './step-event.ts';
import { killEvent, restartEvent, stopEvent } from './step-event.ts';
import { stepFailure } from './step-failure.ts';
import { WakeUp } from './wake-up.ts';
import type { Overflow } from '../engine/storage-watch.ts';
import type { VolumeWriters } from '../volumes/writers.ts';

/** What all service workers of an agent share. */
export interface ServiceDeps extends StepDeps, WorkerDeps {
  ingress: ServerIngress;
  prober: Prober;
  writers: VolumeWriters;
  /** Id of this process in events, see `WireEvents.source`. */
  eventSource: string;
  /** Called when a worker has become settled: that may change no report. */
  settled: () => void;
}

const faultMs = 5_000;

/** Most exits that wait for the output before them. */
const mostExits = 16;

/** Reconciles one service assignment: one step at a time, the newest desired state wins. */
export class ServiceWorker implements Worker {
  readonly id: string;
  readonly #deps: ServiceDeps;
  readonly #readiness: Readiness;
  readonly #listening: Listening;
  readonly #reporter: ServiceReporter;
  readonly #lastOutput: LastOutput;
  readonly #subject: StepSubject;
  readonly #wakeUp: WakeUp;
  #state = initialState;
  /** Exits that are told of with the output before them, once that is known. */
  #exits: Event[] = [];
  #step = new AbortController();
  #mayWrite = true;
  #looked = false;
  #wasSettled = false;
  /** When exits are forgotten, if that was to come at the last observation. */
  #forgivenAt: number | undefined;
  readonly #closing = new AbortController();
  #loop: Promise<void> | undefined;

  constructor(id: string, deps: ServiceDeps) {
    this.id = id;
    this.#deps = deps;
    this.#wakeUp = new WakeUp(deps.clock);
    this.#reporter = new ServiceReporter(id, deps.eventSource);
    this.#lastOutput = new LastOutput(id, deps.capture, () => this.wake());
    this.#subject = {
      id,
      desired: () => this.#wanted(),
      image: () => this.#state.memory.image,
      learn: (change) => void (this.#state = learn(this.#state, change)),
      withdrawn: (container) => void (this.#state = withdraw(this.#state, container)),
      drain: (container, hadOffered) => {
        if (mayHaveServed(this.#state, hadOffered))
          this.#state = drain(this.#state, container, this.#deps.clock.monotonic());
      },
      drained: (container) => void (this.#state = drained(this.#state, container)),
      killed: (graceSeconds) => this.#reporter.add(stopEvent(graceSeconds, this.#state.desired)),
      removed: (container) => void (this.#state = forget(this.#state, container)),
    };
    this.#readiness = new Readiness({
      clock: deps.clock,
      prober: deps.prober,
      changed: () => this.circumstancesChanged(),
      suspected: () => this.#suspect(),
    });
    this.#listening = new Listening({
      clock: deps.clock,
      runtime: deps.runtime,
      prober: deps.prober,
      changed: () => this.circumstancesChanged(),
    });
  }

  get report(): WireReport | undefined {
    return this.#reporter.last;
  }

  /** True once the assignment was inspected since the agent started, so that the report describes a known state. */
  get settled(): boolean {
    return this.#looked && this.#readiness.settled;
  }

  /** Always false: a service may write again. */
  readonly ended = false;

  /** A container wrote more than its limit. */
  overflowed(overflow: Overflow): void {
    this.#state = learn(this.#state, { overflow });
    this.wake();
  }

  /** The engine told of a container: of what an observation does not show any more. */
  told({ containerId: container, action, at, exitCode: code }: RuntimeEvent): void {
    const { memory, desired } = this.#state;
    if (action === 'die' && code !== undefined) {
      this.#state = learn(this.#state, died(memory, { container, at, code }));
      this.wake();
    }
    if (action !== 'oom') return;
    this.#state = learn(this.#state, killed(memory, { container, at }, this.#now()));
    const event = killEvent(memory, this.#state.memory, desired);
    if (event !== undefined) this.#reporter.add(event);
    this.wake();
  }

  /** A volume is there: a container that could not be made for the lack of it is made now. */
  appeared(volume: string): void {
    const before = this.#state;
    this.#state = volumeAppeared(before, volume);
    if (this.#state !== before) this.wake();
  }

  /** Its health or where its ports lead has changed. Of one that serves it is shown at once: a step may take long. */
  circumstancesChanged(): void {
    if (this.#isKnown && this.#state.desired?.run === 'running') this.#show(this.#world(this.#now()));
    this.wake();
  }

  /** The control plane has stored the events of this report. */
  acknowledged(report: WireReport): void {
    this.#reporter.acknowledge(report);
    if (report.events !== undefined) this.wake();
  }

  start(): void {
    this.#loop ??= this.#run();
  }

  /** Something may have changed: the worker checks again. */
  wake(): void {
    this.#wakeUp.wake();
  }

  /** Sets the desired state. If it asks for other work, the step under way is aborted. */
  desire(item: WireAssignment | undefined): void {
    const next = desire(this.#state, item !== undefined && isService(item) ? item : undefined);
    this.#state = next.state;
    this.#claim();
    this.#setProxy();
    if (!next.isSameWork) this.#step.abort(new Error('Another state is desired'));
    this.wake();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#closing.abort(new Error('The agent is stopping'));
    this.#step.abort(this.#closing.signal.reason);
    this.#lastOutput[Symbol.dispose]();
    this.wake();
    await this.#loop;
    this.#readiness[Symbol.dispose]();
    this.#listening[Symbol.dispose]();
  }

  async #run(): Promise<void> {
    while (!this.#closing.signal.aborted) {
      this.#wakeUp.reset();
      let action: Action | undefined;
      try {
        action = this.#next();
      } catch (error) {
        // A bug in one worker must not end the agent and with it all other services.
        this.#deps.log.error(
          { err: error, assignment: this.id },
          'The worker of an instance failed, which is a bug: it goes on in a few seconds',
        );
        await this.#wakeUp.sleep(this.#deps.clock.monotonic() + faultMs);
        continue;
      }
      if (action === undefined || action.do === 'wait') {
        await this.#wakeUp.sleep(action?.until ?? this.#forgivenAt);
        continue;
      }
      this.#step = new AbortController();
      try {
        this.#deps.log.debug({ assignment: this.id, action }, 'Step');
        await performStep(action, this.#subject, this.#deps, this.#step.signal);
        this.#state = stepDone(this.#state, action);
      } catch (error) {
        await this.#failed(action, error);
      }
    }
  }

  /** Observes, reports and returns the next step. While the engine does not answer, only health can change. */
  #next(): Action | undefined {
    const now = this.#now();
    this.#forgivenAt = undefined;
    if (!this.#deps.observer.reachable) {
      if (this.#isKnown) this.#show(this.#world(now));
      return undefined;
    }
    this.#claimVolumes();
    const before = this.#state.memory;
    this.#state = observe(this.#state, this.#deps.observer.of(this.id), now);
    this.#tell(restartEvent(before, this.#state.memory));
    this.#forgivenAt = forgivenAt(this.#state.memory, now.monotonic);
    const world = this.#world(now);
    this.#readiness.observe(readinessSubject(world));
    const { ready } = this.#readiness.health;
    this.#listening.observe(listeningSubject(world, { ready, published: this.#isPublished }));
    const { state, action, event } = decide(this.#state, { ...world, ready });
    this.#state = state;
    this.#tell(event);
    // The state of a container shows only in its details: nothing is reported before they are known.
    this.#looked ||= action?.do !== 'inspect';
    if (this.#looked) this.#show({ ...world, ready, memory: state.memory });
    this.#settle();
    return action;
  }

  /** Adds an event to the reports: an exit only once the output before it is known. */
  #tell(event: Event | undefined): void {
    if (event?.reason === 'ProcessExited') this.#exits = [...this.#exits, event].slice(-mostExits);
    else if (event !== undefined) this.#reporter.add(event);
  }

  /** Without the engine and a probe over the network the state is unknown: the process may have ended. */
  get #isKnown(): boolean {
    return this.#looked && (this.#deps.observer.reachable || this.#readiness.isProbedByNetwork);
  }

  #settle(): void {
    const { settled } = this;
    if (settled && !this.#wasSettled) this.#deps.settled();
    this.#wasSettled = settled;
  }

  /** Claims the volumes that the service writes to while it shall run, and gives them up once no container of it runs. */
  #claimVolumes(): void {
    const desired = this.#state.desired?.run === 'running' ? this.#state.desired : undefined;
    this.#mayWrite = this.#deps.writers.claim(this.id, desired === undefined ? [] : writtenVolumes(desired));
  }

  /** A ready process does not answer. Its container may have lost its network, which only an inspection shows. */
  #suspect(): void {
    const id = this.#state.memory.run?.container;
    if (id !== undefined) this.#deps.observer.refresh(id).catch(() => undefined);
  }

  #show(world: World): void {
    const offers = portOffers(world, this.#readiness.health.ready);
    if (offers !== undefined) {
      this.#deps.publication.offer(this.id, ...offers);
      this.#deps.ingress.upstreams.offer(this.id, upstreamOf(world, this.#readiness.health.ready));
    }
    this.#deps.ingress.wake(this.id);
    // An exit is reported together with the output before it, which takes a moment to be complete.
    if (!this.#lastOutput.isKnown(world.desired, world.memory.exit)) return;
    // the same words each time, as far as the process has them
    const last = this.#lastOutput.text.split('\n').at(-1) ?? '';
    for (const event of this.#exits.splice(0))
      this.#reporter.add({ ...event, message: last === '' ? event.message : `${event.message}: ${last}` });
    this.#report(world);
  }

  #world(now: Now): World {
    const { observer, networks, runtime } = this.#deps;
    const { desired, memory, withdrawn, drains } = this.#state;
    return {
      desired,
      tombstone: desired === undefined ? this.#deps.desired.tombstone(this.id) : undefined,
      complete: this.#deps.desired.confirmed && !this.#deps.desired.has(this.id),
      actual: observer.of(this.id),
      memory,
      networkReady: desired?.spec.networks.every(({ name }) => name === hostNetwork || networks.has(name)) ?? false,
      ready: this.#readiness.health.ready,
      mayWrite: this.#mayWrite,
      isFollowed: this.#deps.publication.isReleased && this.#deps.ingress.isReleased,
      withdrawn,
      drains,
      can: runtime.can,
      now,
    };
  }

  /** Claims its ports from the moment it is desired, also while it is not known what runs. */
  #claim(): void {
    const { desired } = this.#state;
    if (desired?.run !== 'running') return;
    const claims = portClaims(desired);
    if (claims.length > 0) this.#deps.publication.claim(this.id, ...claims);
  }

  #setProxy(): void {
    const { desired } = this.#state;
    const { ingress, server } = this.#deps;
    const isDesired = desired?.run === 'running' && isProxy(desired, server);
    ingress.setProxy(this.id, isDesired ? desired.spec.ingress : undefined);
  }

  #report(world: World): void {
    const { publication } = this.#deps;
    const { desired } = world;
    // It is not known whether the assignment is desired: there is nothing to report.
    if (desired === undefined && world.tombstone === undefined && !world.complete) return;
    const circumstances = {
      world,
      health: this.#readiness.health,
      published: this.#isPublished,
      listening: this.#listening.note,
      portProblem: publication.problem(this.id) ?? this.#deps.ingress.problemOf(this.id),
      lastLines: this.#lastOutput.text,
      lastOutput: this.#lastOutput.whole,
    };
    const report = this.#reporter.next(circumstances, publication.notice(this.id));
    if (report !== undefined) this.#deps.reported(report);
  }

  /** Its published ports lead to it, or it has none. */
  get #isPublished(): boolean {
    const { desired } = this.#state;
    const has = desired !== undefined && publishedPorts(desired).length > 0;
    return !has || this.#deps.publication.isPublished(this.id);
  }

  #wanted(): ServiceItem {
    const { desired } = this.#state;
    if (desired === undefined) throw new Error(`Assignment ${this.id} is not desired any more`);
    return desired;
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
      const failure = stepFailure(action.do, error, this.#state.memory.failure, clock.monotonic());
      log.warn({ err: error, assignment: this.id, action: action.do }, 'Step failed');
      this.#state = stepFailed(this.#state, action, failure);
      if (action.do === 'create' || action.do === 'start')
        for (const { name } of this.#state.desired?.spec.networks ?? []) networks.delete(name);
    }
  }

  #now(): Now {
    return { monotonic: this.#deps.clock.monotonic(), wall: this.#deps.clock.now() };
  }
}

function isService(item: WireAssignment): item is ServiceItem {
  return item.spec.type === 'service';
}
