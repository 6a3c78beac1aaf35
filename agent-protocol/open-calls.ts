import { CallError } from './call-error.ts';
import type { Clock } from '../time/clock.ts';
import { bounds } from './timing.ts';

/** How a call ended at the other side. */
interface Result {
  id: number;
  ok?: unknown;
  error?: { code: string; message: string } | undefined;
}

/** A call as it is sent. */
export interface OpenCall<Params> {
  id: number;
  timeout_ms: number;
  params: Params;
}

interface Waiting {
  done: (result: Result) => void;
  fail: (error: CallError) => void;
}

/** How the calls of a session leave it. */
export interface CallsOut<Params> {
  call: (call: OpenCall<Params>) => void;
  /** The caller of a call left before its result: the other side may end it. */
  cancel: (id: number) => void;
}

/** The calls of one session to the other side that wait for their answer: at most `bounds.calls`, each with its deadline. */
export class OpenCalls<Params> {
  readonly #out: CallsOut<Params>;
  readonly #clock: Clock;
  /** The other side, in the words of messages. */
  readonly #peer: string;
  readonly #waiting = new Map<number, Waiting>();
  #next = 1;

  constructor(out: CallsOut<Params>, clock: Clock, peer: string) {
    this.#out = out;
    this.#clock = clock;
    this.#peer = peer;
  }

  /**
   * Sends a call and resolves with its result.
   * @throws CallError from the other side, or `away`, `timeout`, `too_many`; the signal's reason when aborted
   */
  async call(params: Params, timeoutMs: number, signal: AbortSignal): Promise<unknown> {
    if (this.#waiting.size >= bounds.calls)
      throw new CallError('too_many', `At most ${bounds.calls} calls to one ${this.#peer} at once`);
    const id = this.#next++;
    const cleanup: (() => void)[] = [() => this.#waiting.delete(id)];
    try {
      return await new Promise<unknown>((resolve, reject) => {
        const abort = (): void => {
          this.#out.cancel(id);
          reject(signal.reason as Error); // all callers abort with an error
        };
        signal.addEventListener('abort', abort, { once: true });
        cleanup.push(() => signal.removeEventListener('abort', abort));
        cleanup.push(
          this.#clock.timer(timeoutMs, () =>
            reject(new CallError('timeout', `The ${this.#peer} did not answer in time`)),
          ),
        );
        this.#waiting.set(id, {
          done: ({ ok, error }) =>
            error === undefined ? resolve(ok) : reject(new CallError(error.code, error.message)),
          fail: reject,
        });
        this.#out.call({ id, timeout_ms: timeoutMs, params });
      });
    } finally {
      for (const undo of cleanup) undo();
    }
  }

  /** Settles the call. A result that no call waits for is dropped. */
  answered(result: Result): void {
    this.#waiting.get(result.id)?.done(result);
  }

  /** All open calls fail with `error`. */
  close(error: CallError): void {
    for (const call of this.#waiting.values()) call.fail(error);
  }
}
