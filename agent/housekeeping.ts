import type { Logger } from 'pino';
import { understand } from '../agent-protocol/assignment.ts';
import type { WireReport } from '../agent-protocol/assignment.ts';
import type { Clock } from '../time/clock.ts';
import { buildNetwork } from './tasks/build-network.ts';
import { deadline } from './runtime/deadline.ts';
import type { DesiredSet } from './desired/desired.ts';
import type { BuildCache } from './engine/build-cache.ts';
import { stagesOf, type ImageCollector } from './engine/image-collector.ts';
import type { ExecutionLog } from './functions/execution-log.ts';
import type { LogStore } from './logs/log-store.ts';
import type { Observer } from './engine/observer.ts';
import type { StepGuard } from './ports/step-guard.ts';
import { isImageOfAgent } from './runtime/foreign.ts';
import type { ContainerRuntime, ListedImage } from './runtime/runtime.ts';
import type { CloneCache } from './tasks/git-clones.ts';
import type { Uploads } from './imports/uploads.ts';
import type { InstanceFiles } from './service/instance-files.ts';
import { labels, stageType } from './runtime/runtime.ts';

/** Number of newest built images of a workload that stay while there is room; older ones stay only if they are needed. */
const keptImages = 5;
/** Number of newest stages of a project that stay as cache of its builds, and the age at which these go, too. */
const keptStages = 10;
const stageAgeMs = 7 * 24 * 3_600_000;
/** Phases of a build that will never take a step again. */
const ended = new Set<WireReport['phase']>(['succeeded', 'failed', 'lost', 'stopped']);
/** Interval at which the fullness of the disk is read, which costs nothing. */
const glanceMs = 60_000;
const everyMs = 3_600_000;
/** Requests that follow each other within this time cause one run. */
const debounceMs = 5_000;
const callMs = 120_000;

/**
 * Removes images that this agent built or pulled, cache of builds, clones, networks, rules of builds and logs that nothing
 * needs any more. Runs every hour, and 5 s after the start and after a request. While the disk is almost full, clones and
 * images go every minute.
 */
export class Housekeeping {
  readonly #deps: Deps;
  readonly #closing = new AbortController();
  #cancel: () => void = () => undefined;
  #cancelGlance: () => void = () => undefined;
  #running: Promise<void> | undefined;
  #glancing: Promise<void> = Promise.resolve();
  /** Digests of images that a workload may return to. */
  #returnable = new Map<string, readonly string[]>();
  /** The control plane has named all workloads with images to return to. */
  #knowsReturnable = false;

  constructor(deps: Deps) {
    this.#deps = deps;
    this.soon();
    this.#glanceLater();
  }

  /** Requests a run: there may be something to remove. */
  soon(): void {
    this.#schedule(debounceMs);
  }

  /** Digests of images to keep although no container uses them, by workload. `whole`: all others are forgotten. */
  keepImages(images: Readonly<Record<string, readonly string[]>>, whole: boolean): void {
    const before = [...this.#returnable.keys()];
    if (whole) this.#returnable.clear();
    this.#knowsReturnable ||= whole;
    for (const [workload, digests] of Object.entries(images))
      if (digests.length > 0) this.#returnable.set(workload, digests);
      else this.#returnable.delete(workload);
    if (before.some((workload) => !this.#returnable.has(workload))) this.soon();
  }

  /**
   * Runs once, and removes images also where the disk is not almost full yet. Returns how many of them were removed.
   * Never throws: see `run`.
   */
  async clean(): Promise<number> {
    const before = this.#deps.collector.freed.images;
    await this.run();
    await this.#tried(async () => this.#deps.clones?.clear());
    await this.#tried(() => this.#collect());
    return this.#deps.collector.freed.images - before;
  }

  /** Runs once. Never throws: a task that fails is tried again in the next run. */
  async run(): Promise<void> {
    this.#running ??= this.#all().finally(() => {
      this.#running = undefined;
    });
    await this.#running;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#closing.abort(new Error('The agent is stopping'));
    this.#cancel();
    this.#cancelGlance();
    await Promise.all([this.#running, this.#glancing]);
  }

  #glanceLater(): void {
    if (this.#closing.signal.aborted) return;
    this.#cancelGlance = this.#deps.clock.timer(glanceMs, () => {
      this.#glancing = this.#tried(() => this.#collectIfFull()).finally(() => this.#glanceLater());
    });
  }

  #schedule(ms: number): void {
    this.#cancel();
    if (this.#closing.signal.aborted) return;
    this.#cancel = this.#deps.clock.timer(ms, () => {
      this.#schedule(everyMs);
      void this.run();
    });
  }

  async #all(): Promise<void> {
    const { logs } = this.#deps;
    for (const task of [
      () => this.#networks(),
      () => this.#stepRules(),
      () => this.#images(),
      () => this.#trimCache(false),
      () => this.#collectIfFull(),
      () => logs.prune(),
      () => this.#logs(),
      () => this.#files(),
      () => this.#executions(),
      () => this.#clones(),
      () => this.#uploads(),
    ])
      await this.#tried(task);
  }

  async #tried(task: () => Promise<void>): Promise<void> {
    try {
      await task();
    } catch (error) {
      if (!this.#closing.signal.aborted)
        this.#deps.log.warn({ err: error }, 'Cannot remove all that is not needed any more: the agent tries again');
    }
  }

  async #collectIfFull(): Promise<void> {
    if (!(await this.#deps.collector.isNeeded())) return;
    await this.#tried(async () => this.#deps.clones?.clear());
    if (!(await this.#deps.collector.isNeeded())) return;
    // Images that a workload may return to are worth more than the time of the next build.
    await this.#tried(() => this.#trimCache(true));
    if (await this.#deps.collector.isNeeded()) await this.#collect();
  }

  async #trimCache(isFull: boolean): Promise<void> {
    if (!this.#deps.observer.reachable) return;
    using limit = deadline(this.#deps.clock, callMs, 'Removing cache of builds', this.#closing.signal);
    await this.#deps.cache.trim({ isFull }, limit.signal);
  }

  async #collect(): Promise<void> {
    const { clock, collector } = this.#deps;
    if (!this.#knowsImages()) return;
    using limit = deadline(clock, callMs, 'Removing images', this.#closing.signal);
    await collector.collect(() => this.#wantedImages(), limit.signal);
  }

  /** Which images a workload may return to is known once the control plane has sent a set. */
  #knowsImages(): boolean {
    return this.#deps.desired.confirmed && this.#deps.observer.reachable;
  }

  async #networks(): Promise<void> {
    using limit = deadline(this.#deps.clock, callMs, 'Removing networks', this.#closing.signal);
    for (const name of await this.unneededNetworks(limit.signal)) await this.removeNetwork(name, limit.signal);
  }

  /** An agent that was killed while it built left the rules that kept steps from the machine: others meet them, too. */
  async #stepRules(): Promise<void> {
    using limit = deadline(this.#deps.clock, callMs, 'Removing rules of builds', this.#closing.signal);
    await this.#deps.steps.sweep(limit.signal);
  }

  /** Networks of this server that nothing needs; none while that is not known. */
  async unneededNetworks(signal: AbortSignal): Promise<string[]> {
    const { runtime, server, desired, observer } = this.#deps;
    // Without a set, and before the engine answered, it is not known which networks are needed. A set of an earlier
    // process is enough, as a needed network is made again: this server may be deleted while its agent restarts.
    if (desired.position() === undefined || !observer.reachable) return [];
    const present = await runtime.networks({ [labels.server]: server }, signal);
    return present.filter((name) => name.startsWith('sp-') && !this.#neededNetworks().has(name));
  }

  /** Removes a network of this server, unless it is needed by now. */
  async removeNetwork(name: string, signal: AbortSignal): Promise<void> {
    if (this.#neededNetworks().has(name)) return;
    this.#deps.networks.delete(name);
    await this.#deps.runtime.removeNetwork(name, signal);
  }

  /** Networks of desired services, and networks that a container of the agent is still in. */
  #neededNetworks(): Set<string> {
    const { desired, observer } = this.#deps;
    const needed = new Set<string>();
    for (const { id, spec } of desired.understood())
      if (spec.type === 'build') needed.add(buildNetwork(id));
      else if (spec.type === 'run') needed.add(spec.network);
      else if (spec.type === 'function') needed.add(spec.network.name);
      else if (spec.type === 'service') for (const { name } of spec.networks) needed.add(name);
    for (const id of observer.assignments())
      for (const { detail } of observer.of(id))
        for (const name of Object.keys(detail?.addresses ?? {})) needed.add(name);
    return needed;
  }

  /** Removes empty logs of workloads that are not desired. Others stay: they keep the number of the next line. */
  async #logs(): Promise<void> {
    const { desired, logs } = this.#deps;
    if (desired.confirmed) await logs.forget(new Set([...desired.all()].map((item) => item.workload_id)));
  }

  /** Removes what is known of calls of functions that are not desired. */
  async #executions(): Promise<void> {
    const { desired, executions } = this.#deps;
    if (!desired.confirmed) return;
    await executions.retain(new Set([...desired.all()].map((item) => item.workload_id)));
  }

  /** Removes the files of instances that are not desired and have no container. */
  async #files(): Promise<void> {
    const { desired, observer, files } = this.#deps;
    if (desired.position() === undefined || !observer.reachable) return;
    await files.retain(new Set([...[...desired.all()].map(({ id }) => id), ...observer.assignments()]));
  }

  /** Removes the clones of projects that this server has nothing of any more. */
  async #clones(): Promise<void> {
    const { desired, clones } = this.#deps;
    if (desired.confirmed) await clones?.retain(new Set([...desired.all()].map((item) => item.project_id)));
  }

  /** Removes dumps that were sent and that no restore reads any more. */
  async #uploads(): Promise<void> {
    const { desired, uploads } = this.#deps;
    if (!desired.confirmed) return;
    const sources = [...desired.all()].map((item) => {
      const spec = understand(item)?.spec;
      return spec?.type === 'restore' ? spec.source : undefined;
    });
    await uploads.retain(new Set(sources.flatMap((it) => (it?.by === 'upload' ? [it.name] : []))));
  }

  async #images(): Promise<void> {
    const { runtime, server, clock } = this.#deps;
    if (!this.#knowsImages()) return;
    using limit = deadline(clock, callMs, 'Removing images', this.#closing.signal);
    const images = (await runtime.images({ [labels.server]: server }, limit.signal)).filter(isImageOfAgent);
    const isStage = ({ labels: own }: ListedImage): boolean => own[labels.type] === stageType;
    const builds = beyond(
      keptImages,
      labels.workload,
      images.filter((image) => !isStage(image)),
    );
    const left = images.filter((image) => !isStage(image) && this.#isGone(image.labels[labels.workload] ?? ''));
    for (const { id } of new Set([...builds, ...left]))
      if (!this.#wantedImages().has(id)) await runtime.removeImage(id, limit.signal);
    const stages = images.filter(isStage);
    const oldest = clock.now().getTime() - stageAgeMs;
    const unneeded = [...beyond(keptStages, labels.project, stages), ...stages.filter(({ madeAt }) => madeAt < oldest)];
    for (const { id, labels: own } of new Set(unneeded))
      if (!this.#wantedImages().has(stagesOf(own))) await runtime.removeImage(id, limit.signal);
  }

  /** Whether a workload was deleted: nothing of it is desired, and it can return to no image. */
  #isGone(workload: string): boolean {
    if (!this.#knowsReturnable || this.#returnable.has(workload)) return false;
    return [...this.#deps.desired.all()].every(({ workload_id }) => workload_id !== workload);
  }

  #wantedImages(): Set<string> {
    const { desired, observer, reports } = this.#deps;
    const wanted = new Set<string>([...this.#returnable.values()].flat());
    const done = new Set<string>();
    for (const { id, phase, image_digest: digest } of reports()) {
      // Of a build that has just ended, and of instances whose image was found by its name.
      if (digest !== undefined) wanted.add(digest);
      if (ended.has(phase)) done.add(id);
    }
    for (const { id, project_id: project, spec } of desired.understood())
      if (
        (spec.type === 'service' || spec.type === 'run' || spec.type === 'function') &&
        spec.image_digest !== undefined
      )
        wanted.add(spec.image_digest);
      // It would fail without a stage that it has taken its first steps from.
      else if (spec.type === 'build' && !done.has(id)) wanted.add(stagesOf({ [labels.project]: project }));
    for (const id of observer.assignments()) for (const { container } of observer.of(id)) wanted.add(container.imageId);
    return wanted;
  }
}

/** Of images in the order of their age those that have so many newer ones with the same value of a label. */
function beyond(kept: number, label: string, newestFirst: readonly ListedImage[]): ListedImage[] {
  const groups = Map.groupBy(newestFirst, (image) => image.labels[label] ?? '');
  return [...groups.values()].flatMap((group) => group.slice(kept));
}

interface Deps {
  runtime: ContainerRuntime;
  server: string;
  desired: DesiredSet;
  observer: Observer;
  logs: LogStore;
  steps: Pick<StepGuard, 'sweep'>;
  /** Networks that are known to exist. */
  networks: Set<string>;
  files: InstanceFiles;
  executions: Pick<ExecutionLog, 'retain'>;
  collector: ImageCollector;
  cache: BuildCache;
  /** Absent: none are kept. */
  clones: Pick<CloneCache, 'retain' | 'clear'> | undefined;
  uploads: Pick<Uploads, 'retain'>;
  /** What the agent reports of its items now. */
  reports: () => readonly WireReport[];
  clock: Clock;
  log: Logger;
}
