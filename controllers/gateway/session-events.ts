import type { Logger } from 'pino';
import type { WireReport } from '../../agent-protocol/assignment.ts';
import type { Clock } from '../../time/clock.ts';
import { unavailable } from '../../store/errors.ts';
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
    if (of === undefined || this.#options.fence() === undefined) return;
    this.#recorder ??= this.#makeRecorder();
    this.#recorder.record(of, event);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#recorder?.[Symbol.asyncDispose]();
  }

  /** The fence of the session's present epoch. @throws Unavailable while the live key is being taken again */
  #fence(): Guard {
    const fence = this.#options.fence();
    if (fence === undefined) throw unavailable('the session does not hold the live key of its server');
    return fence;
  }

  #makeRecorder(): EventRecorder {
    const { store, mirror, clock, log } = this.#options;
    const guards = (): readonly Guard[] => [this.#fence()];
    return new EventRecorder({ store, mirror, clock, log, guards, onDropped: () => {}, onWritten: () => {} });
  }
}

function isReason(reason: string): boolean {
  return /^[A-Z][A-Za-z0-9]*$/.test(reason);
}
