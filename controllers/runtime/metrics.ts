import { Counter, Gauge, Histogram, type Registry } from 'prom-client';
import type { KeyedQueue } from './queue.ts';

/** How a run ended; label of the metrics. */
export type Outcome =
  | 'settled'
  | 'again'
  | 'waiting'
  | 'stalled'
  | 'released'
  | 'gone'
  | 'conflict'
  | 'unavailable'
  | 'error'
  | 'aborted';

/** What a controller wrote; label of the metrics. */
export type WriteOperation =
  | 'observe'
  | 'ensure'
  | 'amend'
  | 'retire'
  | 'waive'
  | 'transact'
  | 'release'
  | 'event'
  | 'notify';

/** Metrics of the controllers. Made once per registry. */
export interface ControllerMetrics {
  reconciled(controller: string, outcome: Outcome, milliseconds: number): void;
  wrote(controller: string, operation: WriteOperation): void;
  paced(controller: string): void;
  lawBroken(controller: string): void;
  wakeFailed(controller: string): void;
  leading(isLeader: boolean): void;
  droppedEvent(): void;
  /** Reports the queue until the returned function is called. */
  observe(queue: KeyedQueue): () => void;
  /** Changes that an agent had not made and reported as corrected; the gateway counts them. */
  readonly driftCorrected: Counter<'kind'>;
  readonly orphans: Counter<'area'>;
  readonly collected: Counter<'kind' | 'cause'>;
  readonly resealed: Counter;
  readonly compactedRevision: Gauge;
  readonly auditForgottenEarly: Counter;
}

/** Areas of the store with keys of objects, whose object may be missing. */
const orphanAreas = ['observed', 'events', 'population', 'bytes', 'unique'] as const;
export type OrphanArea = (typeof orphanAreas)[number];

export function controllerMetrics(registry: Registry): ControllerMetrics {
  const registers = [registry];
  const orphans = new Counter({
    name: 'setpoint_orphaned_keys_total',
    help: 'Keys without their object that were removed: each is a bug',
    labelNames: ['area'] as const,
    registers,
  });
  for (const area of orphanAreas) orphans.inc({ area }, 0);
  const queues = new Set<KeyedQueue>();
  const duration = new Histogram({
    name: 'setpoint_reconcile_duration_seconds',
    help: 'Duration of a reconcile with its writes',
    labelNames: ['controller', 'outcome'] as const,
    buckets: [0.0005, 0.001, 0.0025, 0.01, 0.05, 0.25, 1, 5, 30, 60],
    registers,
  });
  const total = new Counter({
    name: 'setpoint_reconcile_total',
    help: 'Reconciles by outcome',
    labelNames: ['controller', 'outcome'] as const,
    registers,
  });
  const paced = new Counter({
    name: 'setpoint_reconcile_paced_total',
    help: 'Reconciles put off because their object changes more often than it is reconciled',
    labelNames: ['controller'] as const,
    registers,
  });
  const writes = new Counter({
    name: 'setpoint_controller_writes_total',
    help: 'Transactions of the controllers',
    labelNames: ['controller', 'operation'] as const,
    registers,
  });
  const laws = new Counter({
    name: 'setpoint_status_law_violations_total',
    help: 'Verdicts that broke a law of the status: each is a bug',
    labelNames: ['controller'] as const,
    registers,
  });
  const wakes = new Counter({
    name: 'setpoint_wake_failures_total',
    help: 'Wakes that threw, which made every object of a tenant be reconciled: each is a bug',
    labelNames: ['controller'] as const,
    registers,
  });
  const leader = new Gauge({ name: 'setpoint_leader', help: 'Whether this replica runs the controllers', registers });
  const dropped = new Counter({
    name: 'setpoint_events_dropped_total',
    help: 'Events given up because too many wait or the store refused them',
    registers,
  });
  const gauge = (name: string, help: string, value: (queue: KeyedQueue) => number): void => {
    const made = new Gauge({
      name,
      help,
      labelNames: ['controller'] as const,
      registers,
      collect() {
        made.reset();
        for (const queue of queues) made.set({ controller: queue.name }, value(queue));
      },
    });
  };
  gauge('setpoint_queue_depth', 'Keys that wait for a run', (queue) => queue.depth);
  gauge('setpoint_queue_oldest_seconds', 'Age of the oldest waiting key', (queue) => queue.oldestMs / 1000);
  gauge('setpoint_queue_running', 'Runs under way', (queue) => queue.running);
  gauge('setpoint_reconcile_stuck', 'Runs that ignore their deadline', (queue) => queue.stuck);
  return {
    reconciled(controller, outcome, milliseconds) {
      duration.observe({ controller, outcome }, milliseconds / 1000);
      total.inc({ controller, outcome });
    },
    paced: (controller) => paced.inc({ controller }),
    wrote: (controller, operation) => writes.inc({ controller, operation }),
    wakeFailed: (controller) => wakes.inc({ controller }),
    lawBroken: (controller) => laws.inc({ controller }),
    leading: (isLeader) => leader.set(isLeader ? 1 : 0),
    droppedEvent: () => dropped.inc(),
    observe(queue) {
      queues.add(queue);
      for (const defects of [laws, wakes]) defects.inc({ controller: queue.name }, 0); // so that the first one is an increase
      return () => queues.delete(queue);
    },
    driftCorrected: new Counter({
      name: 'setpoint_drift_corrected_total',
      help: 'Deviations of the real world that were put back',
      labelNames: ['kind'] as const,
      registers,
    }),
    orphans,
    collected: new Counter({
      name: 'setpoint_garbage_collected_total',
      help: 'Objects whose deletion the garbage controller requested',
      labelNames: ['kind', 'cause'] as const,
      registers,
    }),
    resealed: new Counter({
      name: 'setpoint_resealed_values_total',
      help: 'Records sealed anew with the current key',
      registers,
    }),
    compactedRevision: new Gauge({
      name: 'setpoint_compacted_revision',
      help: 'Revision up to which history was forgotten',
      registers,
    }),
    auditForgottenEarly: new Counter({
      name: 'setpoint_audit_forgotten_early_total',
      help: 'Audit records that were removed before their time, as a tenant has too many',
      registers,
    }),
  };
}
