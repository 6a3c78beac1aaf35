/** One run of a piece of work; resolves with its figure in the unit of the measurement. */
export type Sample = () => Promise<number>;

export interface Measurement {
  /** What is measured, in a few words: "deploy of a local image until it answers". */
  what: string;
  unit: 'ms' | 'per s' | 'MB' | '%';
  /** The raw limit or the peer on the same machine. Absent where the goal is absolute. */
  raw?: Sample;
  ours: Sample;
  /** What is asked of the median of ours ÷ raw, or of ours alone where there is no raw figure. */
  goal: { atMost: number } | { atLeast: number };
  /** Pairs that count; one more runs before them and does not count. Default 7. */
  rounds?: number;
}

export interface Spread {
  median: number;
  min: number;
  max: number;
}

export interface Result {
  what: string;
  unit: Measurement['unit'];
  goal: Measurement['goal'];
  raw?: Spread;
  ours: Spread;
  /** Of the pairs, each measured back to back, so that what else the machine does falls on both. */
  ratio?: Spread;
  met: boolean;
}

/** Runs raw and ours in turns, the first of a pair in every second round the second in the next. */
export async function measure(measurement: Measurement): Promise<Result> {
  const { what, unit, goal, raw, ours, rounds = 7 } = measurement;
  const pairs: { raw: number; ours: number }[] = [];
  for (let round = 0; round <= rounds; round += 1) {
    const pair = raw === undefined ? { raw: NaN, ours: await ours() } : await runPair(raw, ours, round % 2 === 0);
    if (round > 0) pairs.push(pair);
  }
  const own = spread(pairs.map((pair) => pair.ours));
  if (raw === undefined) return { what, unit, goal, ours: own, met: meets(own.median, goal) };
  const ratio = spread(pairs.map((pair) => pair.ours / pair.raw));
  return {
    what,
    unit,
    goal,
    raw: spread(pairs.map((pair) => pair.raw)),
    ours: own,
    ratio,
    met: meets(ratio.median, goal),
  };
}

async function runPair(raw: Sample, ours: Sample, rawFirst: boolean): Promise<{ raw: number; ours: number }> {
  if (rawFirst) return { raw: await raw(), ours: await ours() };
  const own = await ours();
  return { raw: await raw(), ours: own };
}

export function spread(figures: readonly number[]): Spread {
  const sorted = figures.toSorted((a, b) => a - b);
  const at = (index: number) => sorted[index] ?? NaN;
  const middle = (sorted.length - 1) / 2;
  return { median: (at(Math.floor(middle)) + at(Math.ceil(middle))) / 2, min: at(0), max: at(sorted.length - 1) };
}

function meets(figure: number, goal: Measurement['goal']): boolean {
  return 'atMost' in goal ? figure <= goal.atMost : figure >= goal.atLeast;
}

/** Milliseconds that the work takes, by the monotonic clock. */
export async function timed(work: () => Promise<unknown>): Promise<number> {
  const start = performance.now();
  await work();
  return performance.now() - start;
}

/** How often per second `clients` callers, each waiting for its own answer, get through the work within `ms`. */
export async function rate(work: () => Promise<unknown>, clients: number, ms = 2_000): Promise<number> {
  const start = performance.now();
  let done = 0;
  await Promise.all(
    Array.from({ length: clients }, async () => {
      while (performance.now() - start < ms) {
        await work();
        done += 1;
      }
    }),
  );
  return (done * 1_000) / (performance.now() - start);
}
