import { blankReport } from '../../agent-protocol/assignment.ts';
import type { WireAssignment, WireReport } from '../../agent-protocol/assignment.ts';
import type { FailureCode } from '../../agent-protocol/failure-codes.ts';
import { Coalesced } from '../../time/coalesced.ts';
import type { Worker, WorkerDeps } from '../desired/worker.ts';
import type { ImageStore } from '../engine/image-store.ts';
import type { Publication } from '../ports/publication.ts';
import { deadline } from '../runtime/deadline.ts';
import type { ContainerRuntime } from '../runtime/runtime.ts';
import { labels, RuntimeFailure } from '../runtime/runtime.ts';
import { Activator } from './activator.ts';
import type { Functions } from './functions.ts';
import type { Gate } from './gate.ts';
import { Launcher, writtenVolumes } from './launch.ts';
import type { FunctionItem, LaunchDeps } from './launch.ts';
import { isImageGone } from './pool.ts';

/** What all function workers of an agent share. */
export interface FunctionDeps extends WorkerDeps, Omit<LaunchDeps, 'runtime' | 'clock' | 'log'> {
  runtime: LaunchDeps['runtime'] & Pick<ContainerRuntime, 'ensureNetwork'>;
  images: Pick<ImageStore, 'resolve'>;
  publication: Pick<Publication, 'refusalOf'>;
  gate: Gate;
  functions: Pick<Functions, 'serve' | 'leave' | 'record'>;
  /** One assignment at a time may write to a volume; without volumes it gives back those that it had. */
  writers: { claim(assignment: string, volumes: readonly string[]): boolean };
  /** Networks that are known to exist. */
  networks: Set<string>;
}

/** A change that the function does not serve with, as no instance of it starts. */
interface Refused {
  /** What was to be served, as JSON. */
  wanted: string;
  message: string;
  failures: number;
  /** When it is tried again, by the monotonic clock. */
  againAt: number;
}

const othersVolume =
  'Something else writes to a volume that the function mounts: the function serves once that has ended';
const callMs = 60_000;
const retryMs = 5_000;
/** Longest pause until a change is tried again. */
const mostRetryMs = 60_000;

/**
 * Serves one function: opens its port, and lets the activator make instances for its calls. What an earlier process of the
 * agent left running is removed first: its calls ended with that.
 */
export class FunctionWorker implements Worker {
  readonly id: string;
  /** Always false: a function may always write again. */
  readonly ended = false;
  readonly #deps: FunctionDeps;
  readonly #launcher: Launcher;
  readonly #closing = new AbortController();
  #desired: FunctionItem | undefined;
  #report: WireReport | undefined;
  #activator: Activator | undefined;
  /** The function that the activator is of. */
  #of: string | undefined;
  /** What the activator serves, as JSON. */
  #served: string | undefined;
  /** What the instances of the activator mount, as JSON. */
  #mounts: string | undefined;
  #refused: Refused | undefined;
  /** A failure that may pass by itself, until it is tried again: what the engine tells of a try wakes the worker. */
  #held: { wanted: string; error: RuntimeFailure; againAt: number } | undefined;
  /** Ends the start of the first instance of what is not wanted any more. */
  #warming: { wanted: string; ending: AbortController } | undefined;
  #port: { number: number; close: AsyncDisposable } | undefined;
  readonly #looks = new Coalesced(() => this.#look());
  #cancelTimer: () => void = () => undefined;

  constructor(id: string, deps: FunctionDeps) {
    this.id = id;
    this.#deps = deps;
    this.#launcher = new Launcher(id, deps);
  }

  get report(): WireReport | undefined {
    return this.#report;
  }

  get settled(): boolean {
    return this.#report !== undefined;
  }

  start(): void {
    this.wake();
  }

  wake(): void {
    void this.#launcher.looked();
    this.#looks.ask();
  }

  desire(desired: WireAssignment | undefined): void {
    const wanted = desired !== undefined && isFunction(desired) ? desired : undefined;
    this.#desired = wanted;
    const isOther = wanted?.run !== 'running' || servedOf(wanted) !== this.#warming?.wanted;
    if (isOther) this.#warming?.ending.abort(new Error('Something else is wanted of the function'));
    this.wake();
  }

  acknowledged(): void {
    // Functions have no events.
  }

  overflowed(): void {
    // An instance can write only into its folder in memory.
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#closing.abort(new Error('The agent is stopping'));
    this.#cancelTimer();
    await this.#looks[Symbol.asyncDispose]();
    this.#activator?.abandon();
    await this.#port?.close[Symbol.asyncDispose]();
  }

  async #look(): Promise<void> {
    this.#cancelTimer();
    const desired = this.#desired;
    try {
      const report = await this.#reconcile(desired);
      if (report !== undefined) this.#sendReport(report);
      if (report?.error === undefined) return;
    } catch (error) {
      if (this.#isClosing()) return;
      this.#failed(desired, error);
    }
    this.#cancelTimer = this.#deps.clock.timer(retryMs, () => this.wake());
  }

  #isClosing(): boolean {
    return this.#closing.signal.aborted;
  }

  async #reconcile(desired: FunctionItem | undefined): Promise<WireReport | undefined> {
    const { observer, writers } = this.#deps;
    if (desired === undefined || desired.run === 'stopped') {
      await this.#end();
      // before the engine answered it is not known what is left
      if (!observer.reachable) return undefined;
      const left = (await this.#launcher.sweep()) + observer.of(this.id).length;
      if (left > 0) throw new RuntimeFailure('runtime_unavailable', 'Instances are left', { retryable: true });
      writers.claim(this.id, []);
      return { ...this.#blank(), phase: 'stopped', ...(desired === undefined && { gone: true }) };
    }
    if (!observer.reachable) return undefined;
    const mounts = JSON.stringify(desired.spec.mounts ?? []);
    // what serves with other volumes may start instances that write to them: nothing of it is left once others may
    if (this.#activator !== undefined && this.#mounts !== mounts) await this.#end();
    this.#mounts = mounts;
    // containers that an earlier process of the agent made may hold volumes that another workload waits for
    if (this.#activator === undefined) await this.#launcher.sweep();
    if (!writers.claim(this.id, writtenVolumes(desired)))
      throw new RuntimeFailure('volume_in_use', othersVolume, { retryable: true });
    // no instance is made of it any more: it is looked for anew, and reported as lost until it is there
    if (isImageGone(this.#activator?.failure)) this.#served = undefined;
    const wanted = servedOf(desired);
    if (wanted === this.#served) this.#refused = undefined;
    else if (!this.#isRefused(wanted)) {
      this.#requireUnheld(wanted);
      const image = await this.#prepare(desired);
      if (this.#desired !== desired) return undefined; // another look follows at once
      await this.#serve(desired, image, wanted);
      if (this.#looks.isAsked) return undefined; // another look follows at once
    }
    const left = await this.#launcher.sweep();
    // a workload may wait for a volume that a removed container had
    writers.claim(this.id, writtenVolumes(desired));
    if (left > 0) this.#cancelTimer = this.#deps.clock.timer(retryMs, () => this.wake());
    return this.#reportOf(desired, await this.#open(desired));
  }

  /** `problem`: what is wrong with its port. */
  #reportOf(desired: FunctionItem, problem: WireReport['error']): WireReport {
    const report = { ...this.#blank(), phase: 'running' as const, image_digest: desired.spec.image_digest };
    if (problem !== undefined) return { ...report, error: problem };
    const failure = this.#failureOfInstances();
    const answers = this.#served !== undefined && failure === undefined;
    const ready = answers ? { ...report, ready: true, stable: true } : report;
    // where something served before a change, that goes on
    const error =
      this.#refused === undefined ? failure : { code: 'not_started' as const, message: this.#refused.message };
    return error === undefined ? ready : { ...ready, error };
  }

  /** What is to be told of instances that do not start; `undefined`: they do, or none was needed yet. */
  #failureOfInstances(): WireReport['error'] {
    const failure = this.#activator?.failure;
    if (failure === undefined) return undefined;
    return { code: 'not_started', message: `No instance of it starts: ${failure.message}`.slice(0, 1000) };
  }

  /** @throws RuntimeFailure */
  #requireUnheld(wanted: string): void {
    const held = this.#held;
    if (held?.wanted === wanted && this.#deps.clock.monotonic() < held.againAt) throw held.error;
  }

  #isRefused(wanted: string): boolean {
    const { refused, clock } = { refused: this.#refused, clock: this.#deps.clock };
    return refused?.wanted === wanted && clock.monotonic() < refused.againAt;
  }

  /** Resolves with the id of its image. @throws RuntimeFailure */
  async #prepare({ tenant, project_id: project, workload_id: workload, spec }: FunctionItem): Promise<string> {
    const { images, runtime, networks, server, clock } = this.#deps;
    using limit = deadline(clock, callMs, 'Preparing a function', this.#closing.signal);
    const wanted = { reference: spec.image, pinned: spec.image_digest, owner: { tenant, project, workload } };
    const { id } = await images.resolve(wanted, limit.signal);
    if (!networks.has(spec.network.name)) {
      await runtime.ensureNetwork(spec.network.name, { [labels.server]: server }, limit.signal);
      networks.add(spec.network.name);
    }
    return id;
  }

  /** Lets calls be answered as is wanted now, or notes why that cannot be. @throws RuntimeFailure that may pass by itself */
  async #serve(item: FunctionItem, image: string, wanted: string): Promise<void> {
    const { functions, clock, log, capture, gate } = this.#deps;
    const { spec, workload_id: of } = item;
    this.#activator ??= new Activator({
      clock,
      log,
      record: (execution) => functions.record(of, execution),
      lastLines: () => capture.lastLines(this.id),
      changed: () => this.wake(),
      forward: gate.forward,
    });
    const settings = {
      version: spec.version_id,
      concurrency: spec.concurrency,
      minInstances: spec.min_instances,
      maxInstances: spec.max_instances,
      timeoutMs: spec.timeout_seconds * 1000,
      launch: (signal: AbortSignal) => this.#launcher.launch(item, image, signal),
    };
    const ending = new AbortController();
    this.#warming = { wanted, ending };
    try {
      const signal = AbortSignal.any([ending.signal, this.#closing.signal]);
      await this.#activator.become(settings, signal, { isWarm: spec.warm === true });
    } catch (error) {
      if (ending.signal.aborted) return;
      if (this.#isClosing()) throw error;
      if (error instanceof RuntimeFailure && error.retryable) {
        this.#held = { wanted, error, againAt: this.#deps.clock.monotonic() + retryMs };
        throw error;
      }
      this.#refuse(wanted, error);
      return;
    } finally {
      this.#warming = undefined;
    }
    this.#refused = undefined;
    this.#served = wanted;
    this.#of = of;
    functions.serve(of, this.#activator, item.project_id);
  }

  #refuse(wanted: string, error: unknown): void {
    const failures = this.#refused?.wanted === wanted ? this.#refused.failures + 1 : 1;
    const pauseMs = Math.min(retryMs * 2 ** (failures - 1), mostRetryMs);
    const message = (error instanceof Error ? error.message : String(error)).slice(0, 1000);
    this.#refused = { wanted, message, failures, againAt: this.#deps.clock.monotonic() + pauseMs };
  }

  /** Lets the port of the server that it asks for lead to it, and no other one. Resolves with what is wrong with it. */
  async #open({ spec: { port }, project_id: project }: FunctionItem): Promise<WireReport['error']> {
    const { gate, publication } = this.#deps;
    if (this.#port !== undefined && this.#port.number !== port) {
      const { close } = this.#port;
      this.#port = undefined;
      await close[Symbol.asyncDispose]();
    }
    if (port === undefined || this.#activator === undefined) return undefined;
    const code: FailureCode = 'port_taken';
    const held = this.#port;
    const refusal = publication.refusalOf({ port, project, held: held !== undefined });
    if (refusal !== undefined) {
      this.#port = undefined;
      await held?.close[Symbol.asyncDispose]();
      return { code, message: refusal };
    }
    if (held !== undefined) return undefined;
    try {
      this.#port = { number: port, close: await gate.open(port, this.#activator) };
      return undefined;
    } catch (error) {
      if (!(error instanceof Error) || !('code' in error)) throw error;
      const message =
        error.code === 'EADDRINUSE'
          ? `Port ${port} of the server is taken by another program: free it, or change exposed_port`
          : `Port ${port} of the server cannot be opened (${String(error.code)}): change exposed_port`;
      return { code, message };
    }
  }

  async #end(): Promise<void> {
    const [activator, port] = [this.#activator, this.#port];
    this.#activator = undefined;
    this.#port = undefined;
    this.#served = undefined;
    this.#refused = undefined;
    this.#held = undefined;
    if (activator !== undefined && this.#of !== undefined) this.#deps.functions.leave(this.#of, activator);
    if (activator !== undefined) this.#sendReport({ ...this.#blank(), phase: 'stopping' });
    await Promise.all([port?.close[Symbol.asyncDispose](), activator?.close()]);
  }

  #failed(desired: FunctionItem | undefined, error: unknown): void {
    const { log } = this.#deps;
    const isKnown = error instanceof RuntimeFailure;
    if (!isKnown || desired === undefined)
      log.warn({ err: error, assignment: this.id }, 'Cannot serve or end a function: the agent tries again');
    if (desired === undefined) return;
    const code: FailureCode = isKnown ? error.code : 'runtime_unavailable';
    const message = error instanceof Error ? error.message : String(error);
    if (desired.run === 'stopped') this.#sendReport({ ...this.#blank(), phase: 'stopping', error: { code, message } });
    else if (this.#served !== undefined)
      this.#sendReport({
        ...this.#blank(),
        phase: 'running',
        ...(this.#failureOfInstances() === undefined && { ready: true, stable: true }),
        error: { code, message },
      });
    else
      this.#sendReport({
        ...this.#blank(),
        phase: isKnown && !error.retryable ? 'failed' : 'pending',
        error: { code, message },
      });
  }

  #blank(): Omit<WireReport, 'phase'> {
    const { desired } = this.#deps;
    const generation =
      this.#desired?.generation ?? desired.tombstone(this.id)?.generation ?? this.#report?.generation ?? 0;
    return blankReport({ id: this.id, generation });
  }

  #sendReport(report: WireReport): void {
    if (JSON.stringify(this.#report) === JSON.stringify(report)) return;
    this.#report = report;
    this.#deps.reported(report);
  }
}

/** What its instances and their number follow from, as JSON: a changed port, or one that is warm by now, replaces none. */
function servedOf({ spec }: FunctionItem): string {
  return JSON.stringify({ ...spec, port: undefined, warm: undefined });
}

function isFunction(item: WireAssignment): item is FunctionItem {
  return item.spec.type === 'function';
}
