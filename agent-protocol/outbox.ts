import { bounds } from './timing.ts';
import type { Frame, Wire } from './wire.ts';

/**
 * The frames on their way out of one connection. Beats go first, then messages in order, then stream bytes, which are
 * fetched only while the socket holds less than the gate: a reader that never reads costs the gate, not more.
 */
export class Outbox {
  #wire: Wire;
  #urgent: Frame[] = [];
  #messages: Frame[] = [];
  #messageBytes = 0;
  #nextStreamFrame: () => Frame | undefined;
  #overflow: () => void;
  #closed = false;

  constructor(wire: Wire, hooks: { nextStreamFrame: () => Frame | undefined; overflow: () => void }) {
    this.#wire = wire;
    this.#nextStreamFrame = hooks.nextStreamFrame;
    this.#overflow = hooks.overflow;
  }

  urgent(frame: Frame): void {
    this.#urgent.push(frame);
    this.pump();
  }

  push(frame: Frame): void {
    this.#messages.push(frame);
    this.#messageBytes += frame.length;
    if (this.#messageBytes > bounds.outboxBytes) this.#overflow();
    else this.pump();
  }

  /** To be called when the socket drained, or when a stream has bytes or credit. */
  pump(): void {
    while (!this.#closed && this.#wire.buffered <= bounds.gateBytes) {
      const frame = this.#urgent.shift() ?? this.#shiftMessage() ?? this.#nextStreamFrame();
      if (frame === undefined) return;
      this.#wire.send(frame);
    }
  }

  /** Sends a last word past everything that waits, whatever the socket holds, and forgets the rest. */
  last(frame: Frame): void {
    if (this.#closed) return;
    this.close();
    this.#wire.send(frame);
  }

  close(): void {
    this.#closed = true;
    this.#urgent = [];
    this.#messages = [];
  }

  #shiftMessage(): Frame | undefined {
    const frame = this.#messages.shift();
    if (frame !== undefined) this.#messageBytes -= frame.length;
    return frame;
  }
}
