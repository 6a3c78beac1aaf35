import { Counter, Gauge } from 'prom-client';
import type { Registry } from 'prom-client';
import type { Revision } from './revision.ts';

/** What the gauges look at when they are read. */
export interface MirrorState {
  applied(): Revision;
  isReady(): boolean;
  unreadable(): number;
  objects(): ReadonlyMap<string, number>;
  /** Revisions of the store that are not applied; rejects if the store does not answer. */
  lag(): Promise<number>;
}

export interface MirrorMetrics {
  /** Counts an interruption of the watch by its cause. */
  interrupted(cause: 'unavailable' | 'compacted' | 'rewound' | 'failed'): void;
  /** Counts a comparison with the whole store, and the keys that differed. */
  compared(differing: number): void;
}

export const noMirrorMetrics: MirrorMetrics = { interrupted: () => undefined, compared: () => undefined };

export function mirrorMetrics(registry: Registry, state: MirrorState): MirrorMetrics {
  const gauge = (name: string, help: string, read: () => number): void => {
    const made: Gauge = new Gauge({ name, help, registers: [registry], collect: () => made.set(read()) });
  };
  gauge('setpoint_mirror_applied_revision', 'Revision up to which the mirror is complete', () => state.applied());
  gauge('setpoint_mirror_ready', '1 when the mirror has been filled', () => (state.isReady() ? 1 : 0));
  gauge('setpoint_mirror_unreadable_records', 'Records that this version cannot read', () => state.unreadable());
  const lag: Gauge = new Gauge({
    name: 'setpoint_mirror_lag_revisions',
    help: 'Revisions of the store that the mirror has not applied; NaN if the store does not answer',
    registers: [registry],
    collect: async () => lag.set(await state.lag().catch(() => Number.NaN)),
  });
  const objects: Gauge<'kind'> = new Gauge({
    name: 'setpoint_mirror_objects',
    help: 'Objects in the mirror by kind',
    labelNames: ['kind'],
    registers: [registry],
    collect: () => {
      for (const [kind, count] of state.objects()) objects.set({ kind }, count);
    },
  });
  const interruptions = new Counter({
    name: 'setpoint_mirror_interruptions_total',
    help: 'Interruptions of the watch by cause',
    labelNames: ['cause'],
    registers: [registry],
  });
  const checks = new Counter({
    name: 'setpoint_mirror_checks_total',
    help: 'Comparisons of the mirror with the whole store',
    registers: [registry],
  });
  const corrections = new Counter({
    name: 'setpoint_mirror_corrections_total',
    help: 'Keys in which the mirror differed from the store and was corrected',
    registers: [registry],
  });
  return {
    interrupted: (cause) => interruptions.inc({ cause }),
    compared: (differing) => {
      checks.inc();
      corrections.inc(differing);
    },
  };
}
