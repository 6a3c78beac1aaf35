import type { WireEvent, WirePhase, WireReport } from '../../agent-protocol/assignment.ts';
import { EventLog } from './event-log.ts';
import type { Circumstances } from './service-report.ts';
import { laterPhase, serviceReport } from './service-report.ts';

/** Makes the reports of one service: only those that differ from the last one, with the events that wait. */
export class ServiceReporter {
  readonly #id: string;
  readonly #events: EventLog;
  /** The last reported phase and the generation that it is of. */
  #phase: { generation: number; phase: WirePhase } | undefined;
  /** The last reported notice about its ports. */
  #lastNotice: string | undefined;
  #last: WireReport | undefined;

  /** `source`: id of this process in events, see `WireEvents.source`. */
  constructor(id: string, source: string) {
    this.#id = id;
    this.#events = new EventLog(source);
  }

  /** The last report. */
  get last(): WireReport | undefined {
    return this.#last;
  }

  /** Keeps an event until a report that holds it was acknowledged. */
  add(event: Omit<WireEvent, 'seq'>): void {
    this.#events.add(event);
  }

  acknowledge(report: WireReport): void {
    this.#events.acknowledge(report.events);
  }

  /** Returns the next report; `undefined` if it equals the last one. `notice`: what is amiss with its published ports. */
  next(it: Circumstances, notice: string | undefined): WireReport | undefined {
    const report = serviceReport(this.#id, it);
    this.#addNotice(notice);
    const events = this.#events.pending;
    if (events !== undefined) report.events = events;
    const before = this.#phase?.generation === report.generation ? this.#phase.phase : report.phase;
    report.phase = laterPhase(before, report.phase);
    this.#phase = { generation: report.generation, phase: report.phase };
    if (this.#last !== undefined && JSON.stringify(this.#last) === JSON.stringify(report)) return undefined;
    this.#last = report;
    return report;
  }

  #addNotice(message: string | undefined): void {
    if (message === undefined || message === this.#lastNotice) return;
    this.#lastNotice = message;
    this.#events.add({ type: 'warning', reason: 'PortPartlyOpen', message, drift: false });
  }
}
