import { mkdir, readdir, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { setImmediate } from 'node:timers/promises';
import type { Logger } from 'pino';
import { instanceValues, mostInstances, sampleMs, serverValues } from '../../agent-protocol/metrics.ts';
import type {
  InstanceValue,
  Measured,
  MetricsPage,
  MetricsQuery,
  ServerValue,
  WorkloadLoad,
} from '../../agent-protocol/metrics.ts';
import type { Clock } from '../../time/clock.ts';
import { answerable, Total } from './points.ts';
import { readSeries, Series } from './series.ts';
import type { Rings } from './series.ts';

/** One measurement of an instance. */
export interface InstanceSample {
  workload: string;
  instance: string;
  values: Measured<InstanceValue>;
}

const ending = '.ring';
const serverFile = `server${ending}`;
const instanceFile = /^[\w-]{1,64}\.[\w-]{1,64}\.ring$/;
/** An instance without a sample for so many ticks is gone: its file is closed. */
const ticksUntilGone = 12;
/** Values are the newest ones for this long. */
const newestForMs = 3 * sampleMs;

interface Live {
  series: Series;
  /** Ticks since its last sample. */
  missed: number;
}

/**
 * The measurements of a server and its instances: an hour of samples and a week of means, in one file of a fixed size
 * for each. There are at most {@link mostInstances} files of instances; those of instances that are gone make room for
 * new ones, the oldest first.
 */
export class MetricStore implements AsyncDisposable {
  readonly #folder: string;
  readonly #clock: Clock;
  readonly #log: Logger;
  readonly #live = new Map<string, Live>();
  /** Every file of an instance with the wall time of its last sample. */
  readonly #files: Map<string, number>;
  #newest: { at: number; instances: readonly InstanceSample[] } = { at: 0, instances: [] };
  #recording: Promise<void> = Promise.resolve();
  /** The disk refused the last write. */
  #isRefused = false;
  /** An instance has no file since all of them are of instances that run. */
  #isFull = false;

  private constructor(deps: { folder: string; clock: Clock; log: Logger }, files: Map<string, number>) {
    this.#folder = deps.folder;
    this.#clock = deps.clock;
    this.#log = deps.log;
    this.#files = files;
  }

  /** Opens the folder; without it, as on a disk that refuses writes, measurements are in memory. */
  static async open(deps: { folder: string; clock: Clock; log: Logger }): Promise<MetricStore> {
    await mkdir(deps.folder, { recursive: true, mode: 0o700 }).catch(() => undefined); // the first write reports it
    const names = await readdir(deps.folder).catch(() => []);
    const files = new Map<string, number>();
    for (const name of names.filter((it) => instanceFile.test(it))) {
      const found = await stat(join(deps.folder, name)).catch(() => undefined);
      if (found !== undefined) files.set(name, found.mtimeMs);
    }
    return new MetricStore(deps, files);
  }

  /** Keeps what was measured at a wall time. Never rejects. Calls take effect one after the other. */
  record(at: number, server: Measured<ServerValue>, instances: readonly InstanceSample[]): Promise<void> {
    this.#newest = { at: this.#clock.monotonic(), instances: instances.slice(0, mostInstances) };
    this.#recording = this.#recording
      .then(() => this.#record(at, server, instances))
      .catch((error: unknown) => this.#log.error({ err: error }, 'Metrics of one time were not kept, which is a bug'));
    return this.#recording;
  }

  /** Answers with what is kept of the server, or of the instances of a workload together. */
  async read(query: MetricsQuery, signal: AbortSignal): Promise<MetricsPage> {
    const asked = answerable(query, this.#clock.now().getTime());
    const { workload_id: workload, instance_id: instance } = query;
    const names =
      workload === undefined
        ? [serverFile]
        : [...this.#files.keys()].filter((it) =>
            instance === undefined ? it.startsWith(`${workload}.`) : it === fileOf({ workload, instance }),
          );
    const isSum = workload !== undefined && instance === undefined;
    const total = new Total(asked, isSum ? await this.#rings(serverFile) : undefined);
    for (const name of names) {
      signal.throwIfAborted();
      const rings = await this.#rings(name);
      if (rings !== undefined) total.add(rings);
      // Each of many series is added in a turn of its own, and only one is in memory.
      await setImmediate();
    }
    const rows = total.rows(workload === undefined ? serverValues : instanceValues);
    return { ...asked, rows, ...(workload === undefined && { latest: this.#latest() }) };
  }

  async #rings(name: string): Promise<Rings | undefined> {
    return (await this.#live.get(name)?.series.read()) ?? (await readSeries(join(this.#folder, name)));
  }

  /** What each workload uses now. A value that is not known of all of its instances is left out. */
  get workloads(): WorkloadLoad[] {
    const sums = new Map<string, WorkloadLoad>();
    for (const { workload_id, values } of this.#latest()) {
      const sum = sums.get(workload_id);
      if (sum === undefined) sums.set(workload_id, { workload_id, instances: 1, values });
      else {
        sum.instances += 1;
        for (const name of instanceValues) {
          const [before, more] = [sum.values[name], values[name]];
          if (before === undefined || more === undefined) delete sum.values[name];
          else sum.values[name] = before + more;
        }
      }
    }
    return [...sums.values()];
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#recording;
    for (const { series } of this.#live.values()) await series[Symbol.asyncDispose]();
    this.#live.clear();
  }

  async #record(at: number, server: Measured<ServerValue>, instances: readonly InstanceSample[]): Promise<void> {
    const failures: unknown[] = [];
    const add = async (name: string, values: readonly number[]): Promise<void> => {
      const live = this.#live.get(name) ?? (await this.#open(name));
      if (live === undefined) return;
      live.missed = 0;
      if (name !== serverFile) this.#files.set(name, at);
      await live.series.add(at, values).catch((error: unknown) => failures.push(error));
    };
    await add(
      serverFile,
      serverValues.map((name) => server[name] ?? Number.NaN),
    );
    for (const one of instances)
      await add(
        fileOf(one),
        instanceValues.map((name) => one.values[name] ?? Number.NaN),
      );
    await this.#closeGone();
    this.#report(failures[0]);
  }

  /** Returns `undefined` if there are too many instances. */
  async #open(name: string): Promise<Live | undefined> {
    if (name !== serverFile && !instanceFile.test(name)) return undefined; // no id of ours
    if (name !== serverFile && !this.#files.has(name) && !(await this.#makeRoom())) return undefined;
    const { series, damage } = await Series.open(join(this.#folder, name));
    if (damage !== undefined)
      this.#log.warn({ file: name, damage }, 'Metrics of this server are damaged and were dropped: there is a gap');
    const live = { series, missed: 0 };
    this.#live.set(name, live);
    return live;
  }

  async #makeRoom(): Promise<boolean> {
    while (this.#files.size >= mostInstances) {
      const gone = [...this.#files].filter(([name]) => !this.#live.has(name));
      const [oldest] = gone.toSorted(([, a], [, b]) => a - b);
      if (oldest === undefined) {
        if (!this.#isFull)
          this.#log.warn(
            { most: mostInstances },
            'More instances run on this server than metrics are kept of: the others have none',
          );
        this.#isFull = true;
        return false;
      }
      this.#files.delete(oldest[0]);
      await rm(join(this.#folder, oldest[0]), { force: true }).catch(() => undefined); // its place is used again
    }
    this.#isFull = false;
    return true;
  }

  async #closeGone(): Promise<void> {
    for (const [name, live] of this.#live) {
      live.missed += 1;
      if (live.missed <= ticksUntilGone) continue;
      this.#live.delete(name);
      await live.series[Symbol.asyncDispose]().catch(() => undefined); // nothing was left to write
    }
  }

  #report(failure: unknown): void {
    if (failure !== undefined && !this.#isRefused)
      this.#log.error(
        { err: failure },
        'Cannot write metrics: those of the last hour are kept in memory until the disk takes them. Free space on it',
      );
    if (failure === undefined && this.#isRefused) this.#log.info('Metrics are written again');
    this.#isRefused = failure !== undefined;
  }

  #latest(): NonNullable<MetricsPage['latest']> {
    const { at, instances } = this.#newest;
    if (this.#clock.monotonic() - at > newestForMs) return [];
    return instances.map(({ workload, instance, values }) => ({
      workload_id: workload,
      instance_id: instance,
      values: { ...values },
    }));
  }
}

function fileOf({ workload, instance }: Pick<InstanceSample, 'workload' | 'instance'>): string {
  return `${workload}.${instance}${ending}`;
}
