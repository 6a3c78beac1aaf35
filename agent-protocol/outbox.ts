import { bounds } from './timing.ts';
import type { Frame, Wire } from './wire.ts';

/**
 * The outgoing frames of one connection. Beats go first, then messages in order, then frames that can wait: stream
 * bytes and desired sets. Frames that can wait are made only while the socket holds at most `bounds.gateBytes`, so that
 * a peer that does not read cannot make them pile up.
 */
export class Outbox {
  #wire: Wire;
  #urgent: Frame[] = [];
  #messages: Frame[] = [];
  #messageBytes = 0;
  #nextFrame: () => Frame | undefined;
  #overflow: () => void;
  #closed = false;

  /** `nextFrame`: makes the next frame that can wait. `overflow`: more waits than `bounds` allow. */
  constructor(wire: Wire, hooks: { nextFrame: () => Frame | undefined; overflow: () => void }) {
    this.#wire = wire;
    this.#nextFrame = hooks.nextFrame;
    this.#overflow = hooks.overflow;
  }

  urgent(frame: Frame): void {
    this.#urgent.push(frame);
    this.pump();
    if (this.#urgent.length > bounds.urgentFrames) this.#overflow();
  }

  push(frame: Frame): void {
    this.#messages.push(frame);
    this.#messageBytes += frame.length;
    if (this.#messageBytes > bounds.outboxBytes) this.#overflow();
    else this.pump();
  }

  /** Sends what the socket has room for. Call it when the socket drained, and when `nextFrame` has a new frame. */
  pump(): void {
    while (!this.#closed && this.#wire.buffered <= bounds.gateBytes) {
      const frame = this.#urgent.shift() ?? this.#shiftMessage() ?? this.#nextFrame();
      if (frame === undefined) return;
      this.#wire.send(frame);
    }
  }

  /** Sends a last frame at once, before all queued frames, and drops these. */
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
