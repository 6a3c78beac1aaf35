import type { Comparison, Measurement, Result } from './measure.ts';

export interface BenchContext {
  /** Measures, prints and stores the result. */
  compare: (measurement: Measurement) => Promise<Result>;
  /** The same for several figures of one run. */
  compareAll: <K extends string>(comparison: Comparison<K>) => Promise<Record<K, Result>>;
}

/** A benchmark: each file `<name>.bench.ts` of this folder exports one as `bench`. */
export interface Bench {
  /** The goals that it measures, `P1`… */
  id: string;
  /** Starts what it needs, measures by `context.compare`, and stops everything that it started, also if it fails. */
  run(context: BenchContext): Promise<void>;
}
