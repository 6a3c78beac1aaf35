import { mostTrafficInstances, mostTrafficPoints, trafficForMs, windowMs } from '../../agent-protocol/traffic.ts';
import type { TrafficPage, TrafficQuery, TrafficSample } from '../../agent-protocol/traffic.ts';
import { Counts } from './traffic-counts.ts';
import type { StoredCounts } from './traffic-counts.ts';

/** Where requests went: to an instance of a workload, or, without one, to none. */
export interface Destination {
  workload: string;
  instance: string | undefined;
}

/** What was counted of one destination in one window. */
export type Piece = [window: number, workload: string, instance: string | null, counts: StoredCounts];

/** Numbers in memory, of 8 bytes each. Beyond them the oldest windows are forgotten, which shortens the hour. */
const mostNumbers = 2_000_000;

/** Number of the window in which an instant lies. */
export function windowOf(at: number): number {
  return Math.floor(at / windowMs);
}

/** The counts of an hour, by window, workload and instance. A window is of which something is known, or it is not. */
export class TrafficWindows {
  readonly #pieces = new Map<number, Map<string, Map<string, StoredCounts>>>();
  readonly #partial = new Set<number>();
  #numbers = 0;
  /** Known is what is of these windows: from the first on, and before the second one. */
  #known = { from: Infinity, before: -Infinity };

  get known(): { from: number; before: number } {
    return { ...this.#known };
  }

  /** All that is counted. */
  get pieces(): Piece[] {
    return [...this.#pieces].flatMap(([window, workloads]) =>
      [...workloads].flatMap(([workload, instances]) =>
        [...instances].map(([instance, counts]): Piece => [
          window,
          workload,
          instance === '' ? null : instance,
          counts,
        ]),
      ),
    );
  }

  get partial(): ReadonlySet<number> {
    return this.#partial;
  }

  /** Every request of the windows between these was counted, but for {@link mark}. */
  know(from: number, before: number): void {
    const least = before - mostTrafficPoints;
    this.#known = { from: Math.max(from, least), before };
    for (const window of this.#pieces.keys()) if (window < least) this.#forget(window);
    for (const window of this.#partial) if (window < least) this.#partial.delete(window);
  }

  /** Nothing is known any more of the windows after this one, and this one is not over. */
  goBackTo(window: number): void {
    for (const one of this.#pieces.keys()) if (one > window) this.#forget(one);
    for (const one of this.#partial) if (one > window) this.#partial.delete(one);
    this.#known = { from: Math.min(this.#known.from, window), before: Math.min(this.#known.before, window) };
  }

  /** Requests of these windows may be missing. */
  mark(first: number, last: number): void {
    for (let window = Math.max(first, last - mostTrafficPoints); window <= last; window++) this.#partial.add(window);
  }

  add([window, workload, instance, counts]: Piece): void {
    const workloads = this.#pieces.get(window) ?? new Map<string, Map<string, StoredCounts>>();
    this.#pieces.set(window, workloads);
    const instances = workloads.get(workload) ?? new Map<string, StoredCounts>();
    workloads.set(workload, instances);
    const before = instances.get(instance ?? '');
    const after = before === undefined ? counts : sumOf([before, counts]).toJSON();
    instances.set(instance ?? '', after);
    this.#numbers += sizeOf(after) - (before === undefined ? 0 : sizeOf(before));
    if (this.#numbers > mostNumbers) this.#forgetOldest();
  }

  /** The requests of a workload in one window; `undefined`: nothing is known of it. */
  sample(window: number, workload: string): TrafficSample | undefined {
    if (!this.#isKnown(window)) return undefined;
    const found = this.#pieces.get(window)?.get(workload) ?? new Map<string, StoredCounts>();
    return {
      at: window * windowMs,
      complete: !this.#partial.has(window),
      ...sumOf(found.values()).shown,
      instances: shownOf([...found].map(([instance, counts]) => [instance, Counts.from(counts)])),
    };
  }

  read({ workload_id, instance_id, since, until, step_ms }: TrafficQuery, now: number): TrafficPage {
    const to = Math.min(until, now);
    const from = Math.min(Math.max(since, now - trafficForMs), to);
    const step = Math.ceil(step_ms / windowMs) * windowMs;
    const steps = new Map<number, { counts: Counts; complete: boolean }>();
    const total = { counts: new Counts(), complete: true };
    const instances = new Map<string, Counts>();
    const first = Math.max(windowOf(from), this.#known.from);
    for (let window = first; window < Math.min(windowOf(to) + 1, this.#known.before); window++) {
      const at = Math.floor((window * windowMs) / step) * step;
      const row = steps.get(at) ?? { counts: new Counts(), complete: true };
      steps.set(at, row);
      if (this.#partial.has(window)) row.complete = total.complete = false;
      for (const [instance, stored] of this.#pieces.get(window)?.get(workload_id) ?? []) {
        if (instance_id !== undefined && instance !== instance_id) continue;
        const counts = Counts.from(stored);
        row.counts.add(counts);
        total.counts.add(counts);
        const own = instances.get(instance) ?? new Counts();
        own.add(counts);
        instances.set(instance, own);
      }
    }
    const rows = [...steps].map(([at, { counts, complete }]) => ({ at, complete, ...counts.shown }));
    return {
      since: from,
      until: to,
      step_ms: step,
      rows: rows.slice(-mostTrafficPoints),
      total: { complete: total.complete && rows.length > 0, ...total.counts.shown },
      instances: shownOf([...instances]),
    };
  }

  #isKnown(window: number): boolean {
    return window >= this.#known.from && window < this.#known.before;
  }

  #forgetOldest(): void {
    const oldest = Math.min(...this.#pieces.keys());
    this.#forget(oldest);
    this.#known.from = Math.max(this.#known.from, oldest + 1);
  }

  #forget(window: number): void {
    for (const instances of this.#pieces.get(window)?.values() ?? [])
      for (const counts of instances.values()) this.#numbers -= sizeOf(counts);
    this.#pieces.delete(window);
  }
}

function sumOf(all: Iterable<StoredCounts>): Counts {
  const sum = new Counts();
  for (const one of all) sum.add(Counts.from(one));
  return sum;
}

function shownOf(instances: readonly (readonly [string, Counts])[]): TrafficSample['instances'] {
  return instances
    .filter(([instance]) => instance !== '')
    .slice(-mostTrafficInstances)
    .map(([instance_id, counts]) => ({ instance_id, ...counts.shown }));
}

/** Numbers of it, with room for what holds them. */
function sizeOf([values, cells]: StoredCounts): number {
  return values.length + cells.length + 32;
}
