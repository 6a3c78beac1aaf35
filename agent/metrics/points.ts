import { meanMs, meansForMs, mostPoints, sampledForMs, sampleMs } from '../../agent-protocol/metrics.ts';
import type { MetricsPage, MetricsQuery } from '../../agent-protocol/metrics.ts';
import { added, together } from './ring.ts';
import type { Slot } from './ring.ts';
import { meanOf } from './series.ts';
import type { Rings } from './series.ts';

/** The clocks of the control plane and of the server may differ: what is asked for as the last hour is read as that. */
const slackMs = 60_000;

type Asked = Pick<MetricsQuery, 'since' | 'until' | 'step_ms'>;

/** What can be answered: a time that is kept, in steps that are kept and not too many. */
export function answerable({ since, until, step_ms }: Asked, now: number): Asked {
  const to = Math.min(until, now);
  const from = Math.min(Math.max(since, now - meansForMs), to);
  const kept = from >= now - sampledForMs - slackMs ? sampleMs : meanMs;
  const least = Math.max(step_ms, (to - from) / mostPoints);
  return { since: from, until: to, step_ms: Math.ceil(least / kept) * kept };
}

/** The sum of several series over the time of a query. `asked` is {@link answerable}. */
export class Total {
  readonly #stepMs: number;
  /** The finest form that divides the step: samples only if the step is not one of whole means. */
  readonly #kept: number;
  readonly #first: number;
  /** The slots of that form from the first step on. */
  readonly #slots: (Slot | undefined)[];
  /** The slots that are of one series so far. */
  readonly #alone = new Set<number>();
  readonly #ticks: Rings | undefined;

  /**
   * @param ticks the series that has each sample of the time: where several others are in a step, the mean of each counts for
   *   as many of them as it is of, since instances that follow each other are not there at the same time. Absent: for the step.
   */
  constructor({ since, until, step_ms }: Asked, ticks?: Rings) {
    this.#ticks = ticks;
    this.#stepMs = step_ms;
    this.#kept = step_ms % meanMs === 0 ? meanMs : sampleMs;
    const last = Math.ceil(until / step_ms);
    this.#first = Math.max(Math.floor(since / step_ms), last - mostPoints);
    this.#slots = Array.from({ length: (last - this.#first) * (step_ms / this.#kept) });
  }

  add(series: Rings): void {
    const first = (this.#first * this.#stepMs) / this.#kept;
    for (let n = 0; n < this.#slots.length; n++) {
      const slot = this.#kept === meanMs ? meanOf(series, first + n) : series.samples.get(first + n);
      const sum = this.#slots[n];
      if (slot === undefined) continue;
      if (sum === undefined) {
        this.#slots[n] = slot;
        this.#alone.add(n);
        continue;
      }
      const before = this.#alone.delete(n) ? this.#shareOf(sum, first + n) : sum;
      this.#slots[n] = added(before, this.#shareOf(slot, first + n));
    }
  }

  /** A mean as it counts in its step beside others. */
  #shareOf(slot: Slot, step: number): Slot {
    const ticks = this.#kept === meanMs && this.#ticks ? meanOf(this.#ticks, step)?.count : undefined;
    if (ticks === undefined || ticks <= slot.count) return slot;
    const share = slot.count / ticks;
    return { ...slot, count: ticks, means: slot.means.map((value) => value * share) };
  }

  /** One row per step of which anything is known. */
  rows(names: readonly string[]): MetricsPage['rows'] {
    const perStep = this.#stepMs / this.#kept;
    const rows: MetricsPage['rows'] = [];
    for (let n = 0; n < this.#slots.length; n += perStep) {
      const slot = together(this.#slots.slice(n, n + perStep).filter((it) => it !== undefined));
      if (slot === undefined) continue;
      const values = [slot.means, slot.maxima].flatMap((all) => names.map((name, at) => rounded(name, all[at])));
      rows.push([(this.#first + n / perStep) * this.#stepMs, ...values]);
    }
    return rows;
  }
}

function rounded(name: string, value = Number.NaN): number | null {
  if (Number.isNaN(value)) return null;
  return name.endsWith('_bytes') || name.endsWith('_bps') ? Math.round(value) : Math.round(value * 100) / 100;
}
