import type { WireEvent, WireEvents } from '../../agent-protocol/assignment.ts';

const keptEvents = 16;

/** The latest events of one assignment that the control plane has not acknowledged, at most 16. */
export class EventLog {
  readonly #source: string;
  #items: WireEvent[] = [];
  #seq = 0;

  constructor(source: string) {
    this.#source = source;
  }

  /** The events to send; `undefined` if there are none. */
  get pending(): WireEvents | undefined {
    return this.#items.length === 0 ? undefined : { source: this.#source, items: [...this.#items] };
  }

  add(event: Omit<WireEvent, 'seq'>): void {
    this.#items.push({ ...event, seq: ++this.#seq });
    this.#items = this.#items.slice(-keptEvents);
  }

  /** The control plane stored these events: drops them and all earlier ones. */
  acknowledge(events: WireEvents | undefined): void {
    const last = events?.items.at(-1)?.seq ?? 0;
    if (events?.source === this.#source) this.#items = this.#items.filter(({ seq }) => seq > last);
  }
}
