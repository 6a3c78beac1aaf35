import PQueue from 'p-queue';
import type { Logger } from 'pino';
import type { InstanceValue, Measured, ServerSample } from '../../agent-protocol/metrics.ts';
import type { Clock } from '../../time/clock.ts';
import type { Observer } from '../engine/observer.ts';
import type { LoadMeter } from '../machine/load.ts';
import { deadline } from '../runtime/deadline.ts';
import { labels } from '../runtime/runtime.ts';
import type { ContainerDetail, ContainerRuntime, Usage } from '../runtime/runtime.ts';
import type { InstanceSample, MetricStore } from './metric-store.ts';

/** Time for all containers of a tick: one that does not answer has no sample in it. */
const tickMs = 4_000;
const parallelCalls = 8;

interface Deps {
  meter: Pick<LoadMeter, 'onSample'>;
  runtime: Pick<ContainerRuntime, 'usage'>;
  observer: Pick<Observer, 'all'>;
  store: Pick<MetricStore, 'record'>;
  clock: Clock;
  log: Logger;
}

/** The counters of a run of a container, and when they were read, in monotonic time. */
interface Reading {
  startedAt: string;
  at: number;
  usage: Usage;
}

/**
 * Measures the running containers with each sample of the machine, and stores both. A tick that is not over when the
 * next one is due takes its place.
 */
export class Sampler implements AsyncDisposable {
  readonly #deps: Deps;
  readonly #calls = new PQueue({ concurrency: parallelCalls });
  readonly #closing = new AbortController();
  readonly #unsubscribe: () => void;
  /** The last reading of each running container, by its id. */
  #readings = new Map<string, Reading>();
  #running: Promise<void> | undefined;

  constructor(deps: Deps) {
    this.#deps = deps;
    this.#unsubscribe = deps.meter.onSample((sample) => this.#tick(sample));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#unsubscribe();
    this.#closing.abort(new Error('The agent is stopping'));
    await this.#running;
  }

  #tick(sample: ServerSample): void {
    if (this.#running !== undefined) {
      this.#deps.log.debug('Measuring containers takes longer than 5 s: a sample is skipped');
      return;
    }
    this.#running = this.#measureAll(sample).finally(() => {
      this.#running = undefined;
    });
  }

  async #measureAll({ at, cores, values }: ServerSample): Promise<void> {
    const { observer, store, clock } = this.#deps;
    const running = [...observer.all()].flatMap(({ container, detail }) =>
      container.state === 'running' && detail !== undefined ? [detail] : [],
    );
    const ids = new Set(running.map(({ id }) => id));
    this.#readings = new Map([...this.#readings].filter(([id]) => ids.has(id)));
    using limit = deadline(clock, tickMs, 'Measuring the containers', this.#closing.signal);
    const samples = await Promise.all(running.map((one) => this.#measure(one, cores, limit.signal)));
    const instances = perInstance(samples.filter((it) => it !== undefined));
    if (!this.#closing.signal.aborted) await store.record(at, values, instances);
  }

  /** Returns `undefined` for a container that ended meanwhile, or was not measured in time. */
  async #measure(detail: ContainerDetail, cores: number, signal: AbortSignal): Promise<InstanceSample | undefined> {
    const { [labels.workload]: workload, [labels.assignment]: instance } = detail.labels;
    if (workload === undefined || instance === undefined) return undefined;
    try {
      const now = await this.#calls.add(() => this.#read(detail, signal));
      if (now === undefined) return undefined;
      const before = this.#readings.get(detail.id);
      this.#readings.set(detail.id, now);
      return { workload, instance, values: valuesOf(before, now, detail.memoryBytes, cores) };
    } catch (error) {
      this.#deps.log.debug({ err: error, container: detail.id }, 'Container could not be measured');
      return undefined;
    }
  }

  async #read(detail: ContainerDetail, signal: AbortSignal): Promise<Reading | undefined> {
    signal.throwIfAborted();
    const usage = await this.#deps.runtime.usage(detail, signal);
    return usage && { startedAt: detail.startedAt, at: this.#deps.clock.monotonic(), usage };
  }
}

/** Rates are absent at the first reading of a run, and where a counter went back. */
function valuesOf(
  before: Reading | undefined,
  { startedAt, at, usage }: Reading,
  memoryLimit: number,
  cores: number,
): Measured<InstanceValue> {
  const last = before?.startedAt === startedAt ? before : undefined;
  const seconds = last === undefined ? 0 : (at - last.at) / 1000;
  const rate = (now: number | undefined, then: number | undefined): number | undefined =>
    now === undefined || then === undefined || seconds <= 0 || now < then ? undefined : (now - then) / seconds;
  const cpu = rate(usage.cpuMs, last?.usage.cpuMs);
  const values = {
    // A processor has 1000 ms in a second.
    cpu_percent: cpu === undefined ? undefined : Math.min(cpu / 10, cores * 100),
    memory_used_bytes: usage.memoryBytes,
    memory_limit_bytes: memoryLimit > 0 ? memoryLimit : undefined,
    network_rx_bps: rate(usage.receivedBytes, last?.usage.receivedBytes),
    network_tx_bps: rate(usage.sentBytes, last?.usage.sentBytes),
    disk_read_bps: rate(usage.readBytes, last?.usage.readBytes),
    disk_write_bps: rate(usage.writtenBytes, last?.usage.writtenBytes),
  };
  return known(values);
}

function known(values: Record<InstanceValue, number | undefined>): Measured<InstanceValue> {
  return Object.fromEntries(Object.entries(values).filter(([, value]) => value !== undefined));
}

/** While a container replaces another one, an instance has two: their values are added. */
function perInstance(samples: readonly InstanceSample[]): InstanceSample[] {
  const found = new Map<string, InstanceSample>();
  for (const sample of samples) {
    const other = found.get(sample.instance);
    found.set(sample.instance, other === undefined ? sample : { ...sample, values: sum(other.values, sample.values) });
  }
  return [...found.values()];
}

function sum(a: Measured<InstanceValue>, b: Measured<InstanceValue>): Measured<InstanceValue> {
  const total: Partial<Record<string, number>> = { ...a };
  for (const [name, value] of Object.entries(b)) total[name] = (total[name] ?? 0) + value;
  return total;
}
