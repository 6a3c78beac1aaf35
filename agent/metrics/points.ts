import { setImmediate } from 'node:timers/promises';
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

/** The sum of the series, one row per step of which anything is known. `asked` is {@link answerable}. */
export async function rowsOf(
  series: readonly Rings[],
  { since, until, step_ms }: Asked,
  names: readonly string[],
): Promise<MetricsPage['rows']> {
  const first = Math.floor(since / step_ms);
  const last = Math.ceil(until / step_ms);
  const rows: MetricsPage['rows'] = [];
  for (let step = Math.max(first, last - mostPoints); step < last; step++) {
    // A long read of many series leaves turns to the rest of the agent.
    if (rows.length % 100 === 99) await setImmediate();
    const slot = together(within(series, step * step_ms, step_ms));
    if (slot === undefined) continue;
    const values = [slot.means, slot.maxima].flatMap((all) => names.map((name, n) => rounded(name, all[n])));
    rows.push([step * step_ms, ...values]);
  }
  return rows;
}

/** The slots of a step, in the finest form that divides it: samples only if the step is not one of whole means. */
function* within(series: readonly Rings[], from: number, step_ms: number): Generator<Slot> {
  const isOfMeans = step_ms % meanMs === 0;
  const kept = isOfMeans ? meanMs : sampleMs;
  for (let at = from; at < from + step_ms; at += kept) {
    const number = at / kept;
    const slots = series.map((it) => (isOfMeans ? meanOf(it, number) : it.samples.get(number)));
    const slot = added(slots.filter((it) => it !== undefined));
    if (slot !== undefined) yield slot;
  }
}

function rounded(name: string, value = Number.NaN): number | null {
  if (Number.isNaN(value)) return null;
  return name.endsWith('_bytes') || name.endsWith('_bps') ? Math.round(value) : Math.round(value * 100) / 100;
}
