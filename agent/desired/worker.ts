import type { Logger } from 'pino';
import type { WireAssignment, WireReport } from '../../agent-protocol/assignment.ts';
import type { Clock } from '../../time/clock.ts';
import type { Overflow } from '../engine/storage-watch.ts';
import type { DesiredSet } from './desired.ts';

/** Brings one assignment to its desired state and reports it. */
export interface Worker extends AsyncDisposable {
  readonly report: WireReport | undefined;
  /** The assignment was inspected since the agent started, so that the report describes a known state. */
  readonly settled: boolean;
  /** No more lines of its output will follow. */
  readonly ended: boolean;
  start(): void;
  /** Something may have changed: the worker checks again. */
  wake(): void;
  /** Sets the desired state. If it asks for other work, the work under way is aborted. */
  desire(desired: WireAssignment | undefined): void;
  /** The control plane stored this report. */
  acknowledged(report: WireReport): void;
  /** A container of the assignment wrote more than its limit. */
  overflowed(overflow: Overflow): void;
}

/** What every worker of an agent gets, whatever it works on. */
export interface WorkerDeps {
  desired: DesiredSet;
  clock: Clock;
  log: Logger;
  /** Called with each report that differs from the one before. */
  reported: (report: WireReport) => void;
}
