import type { Logger } from 'pino';
import type { WireReport } from '../../agent-protocol/assignment.ts';
import type { Clock } from '../../time/clock.ts';
import type { KindName } from '../../store/kinds/kinds.ts';
import type { Mirror, TenantView } from '../../store/mirror.ts';
import type { ReadonlyResource } from '../../store/resource.ts';
import type { Guard, Store } from '../../store/store.ts';
import type { EventInput } from '../runtime/controller.ts';
import { EventRecorder } from '../runtime/events.ts';
import { newEvents } from './agent-events.ts';

export interface SessionEventsOptions {
  store: Store;
  mirror: Mirror;
  clock: Clock;
  log: Logger;
  view: Pick<TenantView, 'get'>;
  fence: () => Guard | undefined;
  /** Called for a deviation that the agent corrected, with the kind of the workload. */
  driftCorrected: (kind: string) => void;
}

/** Writes the events that an agent reports into the rings of the assignment and of its workload. */
export class SessionEvents implements AsyncDisposable {
  #options: SessionEventsOptions;
  #recorder: EventRecorder | undefined;
  /** The recorder reads them at each write, since the session's epoch may change. */
  #guards: Guard[] = [];

  constructor(options: SessionEventsOptions) {
    this.#options = options;
  }

  /** A report was stored; `it` is the assignment as it was before. */
  reported(it: ReadonlyResource<'assignment'>, report: WireReport): void {
    const { workload_kind: kind, workload_id: workload } = it.desired;
    for (const { type, reason, message, drift } of newEvents(it, report)) {
      const event = { type, reason: isReason(reason) ? reason : 'Unnamed', message };
      this.record('assignment', it.meta.id, event);
      this.record(kind, workload, event);
      if (drift) this.#options.driftCorrected(kind);
    }
  }

  record(kind: KindName, id: string, event: EventInput): void {
    const of = this.#options.view.get(kind, id);
    const fence = this.#options.fence();
    if (of === undefined || fence === undefined) return;
    this.#guards.splice(0, this.#guards.length, fence);
    this.#recorder ??= this.#makeRecorder();
    this.#recorder.record(of, event);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#recorder?.[Symbol.asyncDispose]();
  }

  #makeRecorder(): EventRecorder {
    const { store, mirror, clock, log } = this.#options;
    const guards = this.#guards;
    return new EventRecorder({ store, mirror, clock, log, guards, onDropped: () => {}, onWritten: () => {} });
  }
}

function isReason(reason: string): boolean {
  return /^[A-Z][A-Za-z0-9]*$/.test(reason);
}
