import { blankReport } from './assignment.ts';
import type { WireReport } from './assignment.ts';
import type { Clock } from '../time/clock.ts';
import type { AgentMessage, ControlMessage } from './messages.ts';
import { bounds, timing } from './timing.ts';

type Report = Extract<AgentMessage, { type: 'report' }>;
type ReportAck = Extract<ControlMessage, { type: 'report_ack' }>;

export interface ReportSource {
  reports(): WireReport[];
  report(id: string): WireReport | undefined;
  acknowledged(reports: readonly WireReport[], rejected: ReadonlySet<string>): void;
}

/**
 * Sends the control plane the latest report of every assignment: all of them after the start, then the changed ones.
 *
 * One report is in flight at a time. If an assignment changes meanwhile, only its latest state is sent. Reports leave
 * at once while the budget lasts: it is `timing.reportBurst` and gets one back every `timing.reportEveryMs`. An item
 * that could not be stored is sent again; an item that is not assigned to the server any more is not.
 */
export class ReportPump {
  #source: ReportSource;
  #send: (report: Report) => void;
  #silent: () => void;
  #clock: Clock;
  #dirty = new Set<string>();
  /** Dropped assignments that this agent never had: reported as gone until that is acknowledged. */
  #absent = new Set<string>();
  #inFlight: { seq: number; items: readonly WireReport[] } | undefined;
  #seq = 0;
  #full = true;
  #budget: number = timing.reportBurst;
  #refilledAt: number;
  #cancelTimer: (() => void) | undefined;
  #cancelDeadline: (() => void) | undefined;
  #cancelRetries = new Set<() => void>();

  constructor(source: ReportSource, clock: Clock, hooks: { send: (report: Report) => void; silent: () => void }) {
    this.#source = source;
    this.#clock = clock;
    this.#send = hooks.send;
    this.#silent = hooks.silent;
    this.#refilledAt = clock.monotonic();
  }

  /** Sends the complete report, also an empty one. */
  start(): void {
    for (const { id } of this.#source.reports()) this.#dirty.add(id);
    this.#flush();
  }

  mark(id: string): void {
    this.#dirty.add(id);
    this.#pump();
  }

  /** The assignment was dropped, and the agent has nothing of it. */
  markAbsent(id: string): void {
    this.#absent.add(id);
    this.mark(id);
  }

  acknowledge({ seq, rejected }: ReportAck): void {
    const sent = this.#inFlight;
    if (sent?.seq !== seq) return;
    this.#inFlight = undefined;
    this.#cancelDeadline?.();
    const unstored = new Set(rejected.filter((it) => it.why === 'unavailable').map((it) => it.id));
    const again = new Set(sent.items.map((it) => it.id).filter((id) => unstored.has(id)));
    for (const { id, gone } of sent.items) if (gone === true && !again.has(id)) this.#absent.delete(id);
    if (again.size > 0) this.#retry(again);
    this.#source.acknowledged(sent.items, again);
    this.#pump();
  }

  stop(): void {
    this.#cancelTimer?.();
    this.#cancelDeadline?.();
    for (const cancel of this.#cancelRetries) cancel();
    this.#dirty.clear();
  }

  #retry(ids: ReadonlySet<string>): void {
    const cancel = this.#clock.timer(timing.reportRetryMs, () => {
      this.#cancelRetries.delete(cancel);
      for (const id of ids) this.#dirty.add(id);
      this.#pump();
    });
    this.#cancelRetries.add(cancel);
  }

  #pump(): void {
    if (this.#inFlight !== undefined || this.#cancelTimer !== undefined || this.#dirty.size === 0) return;
    const wait = this.#waitForBudget();
    if (wait === 0) this.#flush();
    else
      this.#cancelTimer = this.#clock.timer(wait, () => {
        this.#cancelTimer = undefined;
        this.#pump();
      });
  }

  #waitForBudget(): number {
    const now = this.#clock.monotonic();
    const refills = Math.floor((now - this.#refilledAt) / timing.reportEveryMs);
    this.#budget = Math.min(timing.reportBurst, this.#budget + refills);
    this.#refilledAt = this.#budget === timing.reportBurst ? now : this.#refilledAt + refills * timing.reportEveryMs;
    return this.#budget > 0 ? 0 : this.#refilledAt + timing.reportEveryMs - now;
  }

  #flush(): void {
    const items = this.#take();
    if (items.length === 0 && !this.#full) return;
    this.#budget--;
    this.#inFlight = { seq: ++this.#seq, items };
    this.#cancelDeadline = this.#clock.timer(timing.answerMs, this.#silent);
    const full = this.#full;
    const more = full && this.#dirty.size > 0;
    this.#full = more;
    this.#send({ type: 'report', seq: this.#seq, full, ...(more && { more }), items });
  }

  #take(): WireReport[] {
    const items: WireReport[] = [];
    let bytes = 0;
    for (const id of this.#dirty) {
      if (items.length >= bounds.reportItems || bytes >= bounds.batchBytes) break;
      this.#dirty.delete(id);
      const report = this.#source.report(id) ?? (this.#absent.has(id) ? goneReport(id) : undefined);
      if (report === undefined) continue;
      const item = bounded(report);
      items.push(item);
      bytes += JSON.stringify(item).length;
    }
    return items;
  }
}

function goneReport(id: string): WireReport {
  return { ...blankReport({ id, generation: 0 }), phase: 'stopped', gone: true };
}

/** Cuts texts that come from a workload, so that the report is not too large to be accepted. */
function bounded(report: WireReport): WireReport {
  const { error, commit_message: message } = report;
  return {
    ...report,
    ...(error !== undefined && { error: { code: error.code.slice(0, 64), message: error.message.slice(0, 2000) } }),
    ...(message !== undefined && { commit_message: message.slice(0, 2000) }),
  };
}
