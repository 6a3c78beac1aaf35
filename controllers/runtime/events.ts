import PQueue from 'p-queue';
import type { Logger } from 'pino';
import type { Clock } from '../../time/clock.ts';
import { isUnavailable } from '../../store/errors.ts';
import { appendEvent, readEvents, writeEvents } from '../../store/event-ring.ts';
import { keys } from '../../store/keys.ts';
import type { KindName } from '../../store/kinds/kinds.ts';
import type { Mirror } from '../../store/mirror.ts';
import type { AnyObject } from '../../store/resource.ts';
import type { Guard, Store } from '../../store/store.ts';
import type { EventInput } from './controller.ts';
import { limits } from './limits.ts';

export interface EventDeps {
  store: Store;
  mirror: Mirror;
  clock: Clock;
  log: Logger;
  /** Asked for the guards of each write: the fence of the term. @throws Unavailable while there is none for now */
  guards: () => readonly Guard[];
  onDropped: () => void;
  onWritten: () => void;
}

/** Events of one reason that are not written yet, as one. */
interface Pending extends EventInput {
  count: number;
  at: Date;
}

/** Events of one object that are not written yet, and when each reason may be written again. */
interface Buffer {
  readonly tenant: string;
  readonly kind: KindName;
  readonly id: string;
  readonly reasons: Map<string, { pending: Pending | undefined; notBefore: number }>;
  isQueued: boolean;
  cancel: (() => void) | undefined;
}

/**
 * Writes events into the rings of their objects: the first of a reason at once, further ones together, at most one
 * write per 10 s, object and reason. Recording never waits and never fails; events beyond the bounds are dropped and
 * counted. Disposing writes the rest.
 */
export class EventRecorder implements AsyncDisposable {
  readonly #deps: EventDeps;
  readonly #buffers = new Map<string, Buffer>();
  readonly #writes = new PQueue({ concurrency: 4 });
  #closed = false;

  constructor(deps: EventDeps) {
    this.#deps = deps;
  }

  record(of: AnyObject, event: EventInput): void {
    const buffer = this.#buffer(of);
    if (buffer === undefined) {
      this.#deps.onDropped();
      return;
    }
    const name = nameOf(event);
    const known = buffer.reasons.get(name);
    if (known === undefined && buffer.reasons.size >= limits.events.reasons) {
      this.#deps.onDropped();
      return;
    }
    const count = (known?.pending?.count ?? 0) + 1;
    const pending = { ...event, count, at: this.#deps.clock.now() };
    if (known === undefined) buffer.reasons.set(name, { pending, notBefore: 0 });
    else known.pending = pending;
    this.#schedule(buffer);
  }

  /** Writes the rest, for at most `limits.reconcile.graceMs`. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#closed = true;
    for (const buffer of this.#buffers.values()) {
      for (const reason of buffer.reasons.values()) reason.notBefore = 0;
      this.#schedule(buffer);
    }
    let cancel = (): void => undefined;
    const grace = new Promise<void>((resolve) => {
      cancel = this.#deps.clock.timer(limits.reconcile.graceMs, resolve);
    });
    await Promise.race([this.#writes.onIdle(), grace]);
    cancel();
    this.#writes.clear();
    for (const buffer of this.#buffers.values()) buffer.cancel?.();
    this.#buffers.clear();
  }

  #buffer({ meta: { tenant, kind, id } }: AnyObject): Buffer | undefined {
    const key = keys.events(tenant, kind, id);
    const known = this.#buffers.get(key);
    if (known !== undefined) return known;
    if (this.#closed || this.#buffers.size >= limits.events.objects) return undefined;
    const made = { tenant, kind, id, reasons: new Map(), isQueued: false, cancel: undefined };
    this.#buffers.set(key, made);
    return made;
  }

  /** Queues the write of the reasons that are due, or sets a timer for the next one. */
  #schedule(buffer: Buffer): void {
    if (buffer.isQueued) return;
    buffer.cancel?.();
    buffer.cancel = undefined;
    const now = this.#deps.clock.monotonic();
    let next = Infinity;
    for (const [reason, { pending, notBefore }] of buffer.reasons) {
      if (pending === undefined && notBefore <= now) buffer.reasons.delete(reason);
      else next = Math.min(next, notBefore);
    }
    if (next === Infinity) {
      this.#buffers.delete(keys.events(buffer.tenant, buffer.kind, buffer.id));
    } else if (next <= now) {
      buffer.isQueued = true;
      void this.#writes.add(() => this.#write(buffer));
    } else if (!this.#closed) {
      buffer.cancel = this.#deps.clock.timer(next - now, () => this.#schedule(buffer));
    }
  }

  async #write(buffer: Buffer): Promise<void> {
    const { clock, log, onDropped } = this.#deps;
    const now = clock.monotonic();
    const due = [...buffer.reasons.values()].filter((reason) => reason.notBefore <= now);
    const events = due.flatMap(({ pending }) => pending ?? []).toSorted((a, b) => a.at.getTime() - b.at.getTime());
    for (const reason of due) {
      reason.pending = undefined;
      reason.notBefore = now + limits.events.intervalMs;
    }
    try {
      await this.#append(buffer, events);
    } catch (error) {
      const { kind, id } = buffer;
      if (isUnavailable(error) && !this.#closed) this.#keep(buffer, events);
      else for (let n = 0; n < events.length; n++) onDropped();
      if (!isUnavailable(error))
        log.warn({ kind, id, err: error }, 'Cannot write events: they are missing in the list of the object');
    }
    buffer.isQueued = false;
    this.#schedule(buffer);
  }

  /** Puts back events that were not written, to be written with the next of their reason. */
  #keep(buffer: Buffer, events: readonly Pending[]): void {
    for (const event of events) {
      const known = buffer.reasons.get(nameOf(event));
      if (known === undefined) continue;
      const { pending } = known;
      known.pending = pending === undefined ? event : { ...pending, count: pending.count + event.count };
    }
  }

  async #append({ tenant, kind, id }: Buffer, events: readonly Pending[]): Promise<void> {
    const { store, mirror, guards, onWritten } = this.#deps;
    const key = keys.events(tenant, kind, id);
    let current = mirror.key(key);
    for (let attempt = 0; attempt < limits.events.attempts; attempt++) {
      const before: Guard =
        current === undefined ? { key, is: 'absent' } : { key, is: 'at', revision: current.revision };
      const ring = events.reduce((all, event) => appendEvent(all, event, event.at), readEvents(current?.value));
      const result = await store.txn({
        if: [...guards(), { key: keys.desired(tenant, kind, id), is: 'present' }, before],
        then: [{ put: key, value: writeEvents([...ring]) }],
      });
      if (result.committed) {
        onWritten();
        return;
      }
      const own = result.failed.find(({ guard }) => guard.key === key);
      if (own === undefined) return; // the object is gone, or the term is over
      current = own.current && { value: own.current.value, revision: own.current.modRevision };
    }
    throw new Error(`Events changed under every attempt to append: ${kind} ${id}`);
  }
}

function nameOf({ type, reason, about = '' }: Omit<EventInput, 'message'>): string {
  return `${type}/${reason}/${about}`;
}
