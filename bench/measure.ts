/** Runs a piece of work once. Resolves with its figure in the unit of the measurement. */
export type Sample = () => Promise<number>;

/** The goal for the median of ours ÷ raw. It is for ours alone if there is no raw figure, or with `of: 'ours'`. */
export type Goal = ({ atMost: number } | { atLeast: number }) & { of?: 'ours' };

export interface Figure {
  /** What is measured, in a few words: "deploy of a local image until it answers". */
  what: string;
  unit: 'ms' | 's' | 'per s' | 'KB' | 'MB' | 'MB per s' | '%' | 'writes' | 'lines' | 'requests';
  /** Absent: the figure is only for information. */
  goal?: Goal;
}

/** Several figures of one run. */
export interface Comparison<K extends string> {
  figures: Readonly<Record<K, Figure>>;
  /** Measures the raw limit, or another product, on the same machine, for some or all of the figures. */
  raw?: () => Promise<Readonly<Partial<Record<NoInfer<K>, number>>>>;
  ours: () => Promise<Readonly<Record<NoInfer<K>, number>>>;
  /** Number of pairs that count; 7 by default. */
  rounds?: number;
  /** Number of pairs before them that do not count; 1 by default. */
  warmUps?: number;
}

export interface Measurement extends Figure {
  raw?: Sample;
  ours: Sample;
  rounds?: number;
  warmUps?: number;
}

export interface Spread {
  median: number;
  min: number;
  max: number;
}

export interface Result extends Figure {
  raw?: Spread;
  ours: Spread;
  /** Ours ÷ raw of each pair. A pair is measured back to back, so that other load of the machine affects both. */
  ratio?: Spread;
  /** Absent without a goal. */
  met?: boolean;
}

/** Runs raw and ours in pairs. The order within a pair changes with every round. */
export async function measureAll<K extends string>(comparison: Comparison<K>): Promise<Record<K, Result>> {
  const { figures, raw, ours, rounds = 7, warmUps = 1 } = comparison;
  const none = async (): Promise<Readonly<Partial<Record<K, number>>>> => ({}) as Partial<Record<K, number>>; // none of the figures
  const pairs: { raw: Readonly<Partial<Record<K, number>>>; ours: Readonly<Record<K, number>> }[] = [];
  for (let round = 0; round < warmUps + rounds; round += 1) {
    const pair = await runPair(raw ?? none, ours, round % 2 === 0);
    if (round >= warmUps) pairs.push(pair);
  }
  const names = Object.keys(figures) as K[]; // the keys of the record are its names
  const results = names.map((name): [K, Result] => {
    const own = pairs.map((pair) => pair.ours[name]);
    const limit = pairs.flatMap((pair) => pair.raw[name] ?? []);
    return [name, toResult(figures[name], own, limit)];
  });
  return Object.fromEntries(results) as Record<K, Result>; // one for each of the names
}

export async function measure({ raw, ours, rounds, warmUps, ...figure }: Measurement): Promise<Result> {
  const { it } = await measureAll({
    figures: { it: figure },
    ...(raw !== undefined && { raw: async () => ({ it: await raw() }) }),
    ours: async () => ({ it: await ours() }),
    ...(rounds !== undefined && { rounds }),
    ...(warmUps !== undefined && { warmUps }),
  });
  return it;
}

async function runPair<R, O>(
  raw: () => Promise<R>,
  ours: () => Promise<O>,
  rawFirst: boolean,
): Promise<{ raw: R; ours: O }> {
  if (rawFirst) return { raw: await raw(), ours: await ours() };
  const own = await ours();
  return { raw: await raw(), ours: own };
}

/** `raw` is empty, or as long as `ours`. */
function toResult(figure: Figure, ours: readonly number[], raw: readonly number[]): Result {
  const { goal } = figure;
  const own = spread(ours);
  const result: Result = { ...figure, ours: own };
  if (raw.length > 0) {
    result.raw = spread(raw);
    result.ratio = spread(ours.map((it, index) => it / (raw[index] ?? NaN)));
  }
  if (goal !== undefined) {
    const asked = (goal.of === 'ours' ? own : (result.ratio ?? own)).median;
    result.met = 'atMost' in goal ? asked <= goal.atMost : asked >= goal.atLeast;
  }
  return result;
}

export function spread(figures: readonly number[]): Spread {
  const sorted = figures.toSorted((a, b) => a - b);
  const at = (index: number) => sorted[index] ?? NaN;
  const middle = (sorted.length - 1) / 2;
  return { median: (at(Math.floor(middle)) + at(Math.ceil(middle))) / 2, min: at(0), max: at(sorted.length - 1) };
}

/** Returns the figure that `share` of all figures are below: 0.99 for p99. */
export function percentile(figures: readonly number[], share: number): number {
  const sorted = figures.toSorted((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? NaN;
}

/** Returns the milliseconds that the work takes, by the monotonic clock. */
export async function timed(work: () => Promise<unknown>): Promise<number> {
  const start = performance.now();
  await work();
  return performance.now() - start;
}

/** The rate of the work, and the milliseconds that one piece took. */
export interface Throughput {
  perSecond: number;
  p50: number;
  p99: number;
}

/**
 * Measures the work by `clients` callers for `ms` milliseconds; each begins again when its last piece is done. `work`
 * gets the number of its client, from 0.
 */
export async function throughput(
  work: (client: number) => Promise<unknown>,
  clients: number,
  ms = 1_000,
): Promise<Throughput> {
  const start = performance.now();
  const times: number[] = [];
  await Promise.all(
    Array.from({ length: clients }, async (_, client) => {
      for (let from = performance.now(); from - start < ms;) {
        await work(client);
        const now = performance.now();
        times.push(now - from);
        from = now;
      }
    }),
  );
  const perSecond = (times.length * 1_000) / (performance.now() - start);
  return { perSecond, p50: percentile(times, 0.5), p99: percentile(times, 0.99) };
}
