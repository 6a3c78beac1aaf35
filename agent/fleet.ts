import type { Logger } from 'pino';
import { blankReport } from '../agent-protocol/assignment.ts';
import type { WireAssignment, WireItem, WireReport } from '../agent-protocol/assignment.ts';
import type { FailureCode } from '../agent-protocol/failure-codes.ts';
import { isTaskType, taskRow } from '../agent-protocol/task-types.ts';
import type { Clock } from '../time/clock.ts';
import type { Tasks } from './tasks/task.ts';
import type { TaskDeps } from './tasks/task-worker.ts';
import { TaskWorker } from './tasks/task-worker.ts';
import type { DesiredSet } from './desired/desired.ts';
import type { Worker, WorkerDeps } from './desired/worker.ts';
import type { Capture } from './logs/capture.ts';
import type { Observer } from './engine/observer.ts';
import { labels, type Container, type RuntimeEvent } from './runtime/runtime.ts';
import type { ServiceDeps } from './service/service-worker.ts';
import { ServiceWorker } from './service/service-worker.ts';
import type { Overflow } from './engine/storage-watch.ts';
import type { RoutesDeps } from './ingress/routes-worker.ts';
import { RoutesWorker } from './ingress/routes-worker.ts';
import type { FunctionDeps } from './functions/function-worker.ts';
import { FunctionWorker } from './functions/function-worker.ts';
import type { ArchiveDeps } from './archive/archive-worker.ts';
import { ArchiveWorker } from './archive/archive-worker.ts';
import type { VolumeDeps } from './volumes/volume-worker.ts';
import { VolumeWorker } from './volumes/volume-worker.ts';

/** An instance that does not answer its health check holds up the others for at most this time. */
const settleMs = 10_000;

/** One worker for each assignment that is desired or has something left. */
export class Fleet {
  readonly #services: ServiceDeps;
  readonly #volumes: VolumeDeps;
  readonly #archives: ArchiveDeps;
  readonly #functions: FunctionDeps;
  readonly #routes: RoutesDeps;
  readonly #tasks: Tasks;
  readonly #taskDeps: TaskDeps;
  readonly #desired: DesiredSet;
  readonly #observer: Observer;
  readonly #capture: Capture;
  readonly #clock: Clock;
  readonly #log: Logger;
  readonly #workers = new Map<string, Worker>();
  readonly #listeners = new Set<(id: string) => void>();
  readonly #settled = Promise.withResolvers<void>();
  #closed = false;

  constructor(deps: {
    services: Omit<ServiceDeps, keyof WorkerDeps | 'settled'>;
    volumes: Omit<VolumeDeps, keyof WorkerDeps | 'appeared'>;
    archives: Omit<ArchiveDeps, keyof WorkerDeps>;
    functions: Omit<FunctionDeps, keyof WorkerDeps>;
    tasks: Tasks;
    taskDeps: Omit<TaskDeps, keyof WorkerDeps>;
    desired: DesiredSet;
    observer: Observer;
    capture: Capture;
    clock: Clock;
    log: Logger;
  }) {
    const { desired, clock, log } = deps;
    const common: WorkerDeps = { desired, clock, log, reported: (report) => this.#reported(report.id) };
    this.#services = { ...deps.services, ...common, settled: () => this.#checkSettled() };
    this.#volumes = { ...deps.volumes, ...common, appeared: (volume) => this.#appeared(volume) };
    this.#archives = { ...deps.archives, ...common };
    this.#functions = { ...deps.functions, ...common };
    this.#routes = { ...common, ingress: deps.services.ingress };
    this.#tasks = deps.tasks;
    this.#taskDeps = { ...deps.taskDeps, ...common };
    this.#desired = desired;
    this.#observer = deps.observer;
    this.#capture = deps.capture;
    this.#clock = clock;
    this.#log = log;
  }

  /** The desired state or the containers of these assignments changed; without ids: of all assignments. */
  sync(ids?: Iterable<string>): void {
    if (this.#closed) return;
    const all = ids ?? [
      ...[...this.#desired.all()].map(({ id }) => id),
      ...this.#desired.unsettled(),
      ...this.#observer.assignments(),
      ...this.#workers.keys(),
    ];
    for (const id of new Set(all)) this.#syncOne(id);
  }

  /** Containers of these assignments changed. */
  changed(ids: Iterable<string>): void {
    for (const id of ids) {
      this.#follow(id);
      if (this.#workers.has(id)) this.#workers.get(id)?.wake();
      else this.sync([id]);
    }
    this.#checkSettled();
  }

  /** Captures further output of running containers, also of those whose streams ended with the engine. */
  follow(): void {
    for (const { container } of this.#observer.all()) this.#capturing(container);
  }

  /** Once the engine answers, removes what is left of these assignments and reports them as gone. */
  expect(ids: Iterable<string>): void {
    for (const id of ids) {
      if (this.#closed || this.#workers.has(id)) continue;
      const worker = new ServiceWorker(id, this.#services);
      this.#workers.set(id, worker);
      worker.start();
    }
  }

  /** A container of this assignment wrote more than its limit. */
  overflowed(id: string, overflow: Overflow): void {
    this.#workers.get(id)?.overflowed(overflow);
  }

  /** The engine told of a container of this assignment. */
  told(id: string, event: RuntimeEvent): void {
    const worker = this.#workers.get(id);
    if (worker instanceof ServiceWorker) worker.told(event);
  }

  wake(ids: Iterable<string>): void {
    for (const id of ids) this.#workers.get(id)?.wake();
  }

  /** The ports of these services lead elsewhere. */
  portsChanged(ids: Iterable<string>): void {
    for (const id of ids) {
      const worker = this.#workers.get(id);
      if (worker instanceof ServiceWorker) worker.circumstancesChanged();
    }
  }

  /** Something that all workers depend on has changed. */
  wakeAll(): void {
    for (const worker of this.#workers.values()) worker.wake();
  }

  /** Resolves when every assignment was inspected since the start, after 10 s, or when the signal aborts. */
  async settled(signal: AbortSignal): Promise<void> {
    const late = Promise.withResolvers<void>();
    const cancel = this.#clock.timer(settleMs, late.resolve);
    signal.addEventListener('abort', () => late.resolve(), { once: true });
    if (signal.aborted) late.resolve();
    this.#checkSettled();
    await Promise.race([this.#settled.promise, late.promise]);
    cancel();
  }

  reports(): WireReport[] {
    const ids = new Set([...this.#workers.keys(), ...[...this.#desired.all()].map(({ id }) => id)]);
    return [...ids].flatMap((id) => {
      const isKnown = this.#workers.get(id)?.report !== undefined || this.#isKnown(id);
      return (isKnown ? this.report(id) : undefined) ?? [];
    });
  }

  report(id: string): WireReport | undefined {
    const unknown = this.#desired.unknown(id);
    if (unknown !== undefined) return outdated(unknown);
    const worker = this.#workers.get(id);
    if (worker === undefined) return undefined;
    return worker.report ?? unknownYet(id, this.#desired);
  }

  onReport(listener: (id: string) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /** The control plane stored these reports. Resolves when acknowledged removals are marked on disk. */
  async acknowledged(reports: readonly WireReport[]): Promise<void> {
    for (const report of reports) this.#workers.get(report.id)?.acknowledged(report);
    const gone = reports.filter((report) => report.gone === true && !this.#desired.has(report.id));
    await this.#desired.settle(gone.map(({ id }) => id));
    for (const { id } of gone) {
      const worker = this.#workers.get(id);
      if (worker?.report?.gone !== true || this.#desired.has(id)) continue;
      this.#workers.delete(id);
      this.#capture.forget(id);
      await worker[Symbol.asyncDispose]();
    }
  }

  /** True if no more lines of this task will follow. */
  hasEnded(id: string): boolean {
    return this.#workers.get(id)?.ended === true;
  }

  /** Ends the workers; containers run on. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#closed = true;
    await Promise.all([...this.#workers.values()].map((worker) => worker[Symbol.asyncDispose]()));
  }

  #syncOne(id: string): void {
    const desired = this.#desired.get(id);
    const known = this.#workers.get(id);
    const worker = known ?? this.#make(id, desired);
    // Its containers stay as they are: a worker without a desired state does nothing while the item is in the set.
    if (this.#desired.unknown(id) !== undefined) this.#reported(id);
    if (worker === undefined) return;
    worker.desire(desired);
    if (known === undefined) worker.start();
  }

  #make(id: string, desired: WireAssignment | undefined): Worker | undefined {
    const leftovers = this.#desired.tombstone(id)?.acknowledged === false || this.#observer.of(id).length > 0;
    if (desired === undefined && !leftovers) return undefined;
    const worker = this.#workerOf(id, desired?.spec.type ?? 'service');
    this.#workers.set(id, worker);
    this.#follow(id);
    return worker;
  }

  #workerOf(id: string, type: WireAssignment['spec']['type']): Worker {
    if (isTaskType(type)) return new TaskWorker(id, { row: taskRow(type), work: this.#tasks[type] }, this.#taskDeps);
    switch (type) {
      case 'service':
        return new ServiceWorker(id, this.#services);
      case 'volume':
      case 'copied_volume':
        return new VolumeWorker(id, this.#volumes);
      case 'routes':
        return new RoutesWorker(id, this.#routes);
      case 'function':
        return new FunctionWorker(id, this.#functions);
      case 'archive':
        return new ArchiveWorker(id, this.#archives);
    }
  }

  /** Captures the output of containers that were found running, or that the engine restarted. */
  #follow(id: string): void {
    for (const { container } of this.#observer.of(id)) this.#capturing(container);
  }

  #capturing({ id, state, labels: marks }: Container): void {
    const instance = marks[labels.assignment];
    const workload = marks[labels.workload];
    if (state !== 'running' || instance === undefined || workload === undefined) return;
    this.#capture.follow(id, { workload, instance });
  }

  #appeared(volume: string): void {
    for (const worker of this.#workers.values()) if (worker instanceof ServiceWorker) worker.appeared(volume);
  }

  #isKnown(id: string): boolean {
    return this.#desired.has(id) || this.#desired.tombstone(id) !== undefined;
  }

  #reported(id: string): void {
    for (const listener of this.#listeners) {
      try {
        listener(id);
      } catch (error) {
        this.#log.error(
          { err: error, assignment: id },
          'A report could not be handed to the session, which is a bug: it is sent at the next connection',
        );
      }
    }
    this.#checkSettled();
  }

  #checkSettled(): void {
    if (this.#observer.reachable && [...this.#workers.values()].every((worker) => worker.settled))
      this.#settled.resolve();
  }
}

/** The report of an item that this release does not understand. */
function outdated({ id, generation, spec }: WireItem): WireReport {
  const code: FailureCode = 'agent_outdated';
  const message = `The agent of the server is too old for this kind of workload (${spec.type.slice(0, 64)}): upgrade the agent`;
  return { ...blankReport({ id, generation }), phase: 'failed', error: { code, message } };
}

/** The report while the engine has not answered since the agent started: it is unknown whether there is a container. */
function unknownYet(id: string, desired: DesiredSet): WireReport {
  const generation = desired.get(id)?.generation ?? desired.tombstone(id)?.generation ?? 0;
  return { ...blankReport({ id, generation }), phase: 'pending', unknown: true };
}
