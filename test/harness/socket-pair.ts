import type { Frame, Wire } from '../../agent-protocol/wire.ts';

/** What a session does with its connection. */
interface Session {
  receive(frame: Frame): void;
  drained(): void;
  closed(why: string): void;
}

/** What becomes of one frame on its way. */
export type Fault = 'deliver' | 'duplicate' | 'cut' | 'hold';

/**
 * Two wires that are each other's far end. Frames arrive in the order in which they were sent, each in its own turn of the
 * event loop. A fault may double a frame, cut the connection instead of delivering it, or hold it and all that follow
 * until `release`.
 */
export class SocketPair {
  readonly agent: End;
  readonly control: End;
  /** Asked of each frame that leaves: by which end and the how many-th of it, from 1. */
  fault: (by: 'agent' | 'control', n: number, frame: Frame) => Fault = () => 'deliver';
  isCut = false;

  constructor() {
    this.agent = new End(this, 'agent');
    this.control = new End(this, 'control');
  }

  other(end: End): End {
    return end === this.agent ? this.control : this.agent;
  }

  /** The connection breaks: both ends hear of it, nothing more arrives. */
  cut(why = 'Connection cut'): void {
    if (this.isCut) return;
    this.isCut = true;
    this.agent.session?.closed(why);
    this.control.session?.closed(why);
  }
}

export class End implements Wire {
  /** Set by the test once both the wire and the session exist. */
  session: Session | undefined;
  /** Every frame that this end sent. */
  sent: Frame[] = [];
  closedWith: { code: number; reason: string } | undefined;
  /** The peer takes nothing: what is sent stays in the buffer. */
  stalled = false;
  #pair: SocketPair;
  #name: 'agent' | 'control';
  #buffered = 0;
  #queue: Frame[] = [];
  #isHeld = false;
  #isScheduled = false;

  constructor(pair: SocketPair, name: 'agent' | 'control') {
    this.#pair = pair;
    this.#name = name;
  }

  get buffered(): number {
    return this.#buffered;
  }

  /** Messages that this end sent, parsed. */
  get messages(): { type: string; [field: string]: unknown }[] {
    return this.sent.filter((frame) => typeof frame === 'string').map((frame) => JSON.parse(frame));
  }

  send(frame: Frame): void {
    if (this.#pair.isCut || this.closedWith !== undefined) return;
    this.sent.push(frame);
    this.#buffered += frame.length;
    this.#queue.push(frame);
    this.#schedule();
  }

  close(code: number, reason: string): void {
    if (this.closedWith !== undefined) return;
    this.closedWith = { code, reason };
    this.#schedule();
  }

  /** Delivers what was held or stalled. */
  release(): void {
    this.#isHeld = false;
    this.stalled = false;
    this.#schedule();
  }

  #schedule(): void {
    if (this.#isScheduled || this.#isHeld || this.stalled) return;
    this.#isScheduled = true;
    setImmediate(() => {
      this.#isScheduled = false;
      this.#deliver();
    });
  }

  #deliver(): void {
    if (this.#pair.isCut || this.#isHeld || this.stalled) return;
    const frame = this.#queue.shift();
    if (frame === undefined) {
      if (this.closedWith !== undefined) this.#pair.cut(this.closedWith.reason);
      return;
    }
    const fault = this.#pair.fault(this.#name, this.sent.indexOf(frame) + 1, frame);
    if (fault === 'cut') {
      this.#pair.cut();
      return;
    }
    if (fault === 'hold') {
      this.#queue.unshift(frame);
      this.#isHeld = true;
      this.#pair.fault = () => 'deliver';
      return;
    }
    this.#buffered -= frame.length;
    const peer = this.#pair.other(this).session;
    peer?.receive(frame);
    if (fault === 'duplicate') peer?.receive(frame);
    this.session?.drained();
    this.#schedule();
  }
}
