import { bounds } from './timing.ts';
import type { Frame, Wire } from './wire.ts';

/**
 * The frames on their way out of one connection. Beats go first, then messages in order, then what can wait: stream
 * bytes and desired sets, whose frames are made only while the socket holds less than the gate. A reader that never
 * reads costs the gate, not more.
 */
export class Outbox {
  #wire: Wire;
  #urgent: Frame[] = [];
  #messages: Frame[] = [];
  #messageBytes = 0;
  #nextFrame: () => Frame | undefined;
  #overflow: () => void;
  #closed = false;

  /** `nextFrame`: makes the next frame of what can wait. `overflow`: messages that cannot wait are too many. */
  constructor(wire: Wire, hooks: { nextFrame: () => Frame | undefined; overflow: () => void }) {
    this.#wire = wire;
    this.#nextFrame = hooks.nextFrame;
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

  /** To be called when the socket drained, and when there is something new that can wait. */
  pump(): void {
    while (!this.#closed && this.#wire.buffered <= bounds.gateBytes) {
      const frame = this.#urgent.shift() ?? this.#shiftMessage() ?? this.#nextFrame();
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
