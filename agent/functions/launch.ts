import { randomBytes } from 'node:crypto';
import type { Logger } from 'pino';
import type { WireAssignment, WireFunction } from '../../agent-protocol/assignment.ts';
import type { Clock } from '../../time/clock.ts';
import { wait } from '../../time/clock.ts';
import type { DiskSpace } from '../disk/disk-guard.ts';
import { containerName, type Ledger } from '../engine/ledger.ts';
import type { Actual, Observer } from '../engine/observer.ts';
import { storageLimit } from '../engine/storage-watch.ts';
import type { Capture } from '../logs/capture.ts';
import { deadline } from '../runtime/deadline.ts';
import type { Prober } from '../runtime/probe.ts';
import type { ContainerRuntime, ContainerSpec } from '../runtime/runtime.ts';
import { labels, RuntimeFailure } from '../runtime/runtime.ts';
import type { Ending, Launched } from './pool.ts';

/** A function of the desired set. */
export type FunctionItem = WireAssignment & { spec: WireFunction };

export interface LaunchDeps {
  runtime: Pick<ContainerRuntime, 'create' | 'start' | 'inspect' | 'stop' | 'remove'>;
  server: string;
  observer: Observer;
  ledger: Pick<Ledger, 'intend' | 'made' | 'gone'>;
  capture: Pick<Capture, 'start' | 'finished' | 'lastLines'>;
  prober: Prober;
  disk: () => Promise<DiskSpace>;
  clock: Clock;
  log: Logger;
}

/** Where its launcher listens in each instance: `manifests/runtimes/`. */
const instancePort = 8080;
/** No account of the machine has this number. */
const user = '65532:65532';
const usual = { memoryBytes: 256 * 1024 ** 2, nanoCpus: 0.5e9, processes: 256, tmpBytes: 64 * 1024 ** 2 } as const;
const callMs = 60_000;
/** Time from the start of the process until it answers. */
const readyMs = 30_000;
const probeMs = 1_000;
const probeEveryMs = 15;
/** Time that the process has to end. */
const graceSeconds = 2;
/** Pauses before the removal of a container is tried again. */
const removePausesMs = [1000, 4000, 16_000];

/** Makes instances of a function. */
export class Launcher {
  readonly #deps: LaunchDeps;
  readonly #id: string;
  /** What tells that the process of a container has ended, by its id. */
  readonly #living = new Map<string, (end: Ending) => void>();
  /** Names of the containers that the engine is asked to make now. */
  readonly #making = new Set<string>();

  constructor(id: string, deps: LaunchDeps) {
    this.#id = id;
    this.#deps = deps;
  }

  /** Ids of the containers that it made, and that are not gone. */
  get containers(): ReadonlySet<string> {
    return new Set(this.#living.keys());
  }

  /** Resolves when the instance answers. @throws Error, after which nothing of it is left if the engine answers */
  async launch(item: FunctionItem, image: string, signal: AbortSignal): Promise<Launched> {
    const { runtime, observer, ledger, capture, clock } = this.#deps;
    const spec = await this.#containerOf(item, image);
    await ledger.intend(spec.name, this.#id);
    using limit = deadline(clock, callMs, 'Starting an instance of a function', signal);
    const { promise: ended, resolve } = Promise.withResolvers<Ending>();
    const container = await this.#create(spec, resolve, limit.signal);
    observer.note({ id: container, name: spec.name, labels: spec.labels, state: 'created', imageId: image });
    try {
      await ledger.made(container, spec.name);
      const writer = { workload: item.workload_id, instance: this.#id };
      await capture.start(container, writer, () => runtime.start(container, limit.signal), limit.signal);
      const address = await this.#ready(container, item.spec.network.name, limit.signal);
      return { address, port: instancePort, ended, stop: () => this.#remove(container) };
    } catch (error) {
      await this.#remove(container);
      throw error;
    }
  }

  /** Containers may have ended: tells those who wait for the end of one. */
  async looked(): Promise<void> {
    const { observer } = this.#deps;
    for (const [container, resolve] of this.#living) {
      const seen = observer.of(this.#id).find((one) => one.container.id === container);
      if (seen !== undefined && seen.container.state !== 'exited' && seen.container.state !== 'dead') continue;
      if (seen !== undefined && seen.detail === undefined) await observer.refresh(container).catch(() => undefined);
      const detail = observer.of(this.#id).find((one) => one.container.id === container)?.detail;
      resolve({ outOfMemory: detail?.oomKilled === true });
    }
  }

  /**
   * Removes containers of the function that it does not know: an earlier process of the agent made them, or it stopped waiting
   * for the engine to make them. Resolves with how many are left.
   */
  async sweep(): Promise<number> {
    for (const { container } of this.#unknown()) await this.#remove(container.id);
    return this.#unknown().length;
  }

  #unknown(): readonly Actual[] {
    return this.#deps.observer
      .of(this.#id)
      .filter(({ container: { id, name } }) => !this.#living.has(id) && !this.#making.has(name));
  }

  /** Resolves with the id of the container. `ended` is called when its process has ended. */
  async #create(spec: ContainerSpec, ended: (end: Ending) => void, signal: AbortSignal): Promise<string> {
    this.#making.add(spec.name);
    try {
      const container = await this.#deps.runtime.create(spec, signal);
      this.#living.set(container, ended);
      return container;
    } finally {
      this.#making.delete(spec.name);
    }
  }

  /** Resolves with its address once its launcher listens: it has loaded the handler by then. */
  async #ready(container: string, network: string, signal: AbortSignal): Promise<string> {
    const { runtime, prober, clock, capture } = this.#deps;
    using limit = deadline(clock, readyMs, 'The start of the process', signal);
    for (;;) {
      const detail = await runtime.inspect(container, limit.signal);
      if (detail === undefined || detail.state === 'exited' || detail.state === 'dead') {
        const lines = tellingLines(capture.lastLines(this.#id)).join(' | ');
        const why = detail?.oomKilled === true ? ', as it used more memory than its limit' : '';
        throw new Error(`its process ended${why}${lines === '' ? '' : `: ${lines}`}`);
      }
      const address = detail.addresses[network];
      if (address !== undefined && address !== '') {
        const target = { type: 'tcp' as const, address, port: instancePort, timeoutMs: probeMs };
        const found = await prober.probe(target, limit.signal);
        if (found.ok === true) return address;
      }
      await wait(clock, probeEveryMs, limit.signal);
    }
  }

  /** Never throws: what is left goes with the next sweep. */
  async #remove(container: string): Promise<void> {
    const { runtime, observer, ledger, capture, clock, log } = this.#deps;
    for (const pauseMs of [...removePausesMs, undefined])
      try {
        using limit = deadline(clock, callMs, 'Removing an instance of a function', new AbortController().signal);
        await runtime.stop(container, graceSeconds, limit.signal);
        await capture.finished(container, limit.signal);
        await runtime.remove(container, limit.signal);
        observer.noteRemoved(container);
        await ledger.gone(container);
        break;
      } catch (error) {
        log.warn(
          { err: error, assignment: this.#id },
          'Cannot remove an instance of a function: the agent tries again',
        );
        if (pauseMs === undefined) break;
        await wait(clock, pauseMs, new AbortController().signal);
      }
    this.#living.get(container)?.({ outOfMemory: false });
    this.#living.delete(container);
  }

  async #containerOf(item: FunctionItem, image: string): Promise<ContainerSpec> {
    const { server, disk } = this.#deps;
    const { spec } = item;
    if (spec.configuration === undefined)
      throw new RuntimeFailure('secret_unavailable', 'The variables of the function are not on its server yet', {
        retryable: true,
      });
    const written = writtenVolumes(item);
    const { memory_bytes: memoryBytes = usual.memoryBytes, nano_cpus: nanoCpus = usual.nanoCpus } = spec.limits;
    return {
      name: containerName({ ...item, service: randomBytes(3).toString('hex') }),
      image,
      labels: {
        [labels.assignment]: item.id,
        [labels.generation]: String(item.generation),
        [labels.specHash]: item.spec_hash,
        [labels.type]: 'function',
        [labels.workload]: item.workload_id,
        [labels.tenant]: item.tenant,
        [labels.server]: server,
        [labels.storage]: String(storageLimit((await disk()).totalBytes)),
        ...(written.length > 0 && { [labels.writes]: written.join(' ') }),
      },
      env: { HOME: '/tmp', ...spec.configuration.env, SETPOINT_PORT: String(instancePort) },
      networks: [spec.network],
      restart: 'no',
      user,
      readOnlyRoot: true,
      capabilities: { add: [], drop: ['ALL'] },
      mounts: [
        { type: 'tmpfs', path: '/tmp', sizeBytes: usual.tmpBytes, mode: 0o1777 },
        ...(spec.mounts ?? []).map(({ read_only: readOnly, ...mount }) => ({ ...mount, readOnly })),
      ],
      processes: usual.processes,
      memoryBytes,
      nanoCpus,
      stopSeconds: graceSeconds,
      init: 'usual',
    };
  }
}

/** Names of the volumes that its instances may write to. */
export function writtenVolumes({ spec }: FunctionItem): string[] {
  return (spec.mounts ?? []).flatMap(({ volume, read_only }) => (read_only ? [] : volume));
}

/** The last lines without those of a stack, which begin with blanks: its message comes before them. */
function tellingLines(lines: readonly string[]): readonly string[] {
  return lines.filter((line) => /^\S/.test(line)).slice(-5);
}
