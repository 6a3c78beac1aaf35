import { CallError } from './call-error.ts';
import type { Clock } from '../time/clock.ts';
import type { AgentMessage, CallParams } from './messages.ts';
import { bounds } from './timing.ts';

type Result = Extract<AgentMessage, { type: 'result' }>;

interface Waiting {
  done: (result: Result) => void;
  fail: (error: CallError) => void;
}

/** The calls of one session that wait for their answer: at most `bounds.calls`, each with its deadline. */
export class OpenCalls {
  readonly #send: (call: { id: number; timeout_ms: number; params: CallParams }) => void;
  readonly #clock: Clock;
  readonly #waiting = new Map<number, Waiting>();
  #next = 1;

  constructor(send: (call: { id: number; timeout_ms: number; params: CallParams }) => void, clock: Clock) {
    this.#send = send;
    this.#clock = clock;
  }

  /**
   * Sends a call and resolves with its result.
   * @throws CallError from the agent, or `away`, `timeout`, `too_many`; the signal's reason when aborted
   */
  async call(params: CallParams, timeoutMs: number, signal: AbortSignal): Promise<unknown> {
    if (this.#waiting.size >= bounds.calls)
      throw new CallError('too_many', `At most ${bounds.calls} calls to one server at once`);
    const id = this.#next++;
    const cleanup: (() => void)[] = [() => this.#waiting.delete(id)];
    try {
      return await new Promise<unknown>((resolve, reject) => {
        const abort = (): void => reject(signal.reason as Error); // all callers abort with an error
        signal.addEventListener('abort', abort, { once: true });
        cleanup.push(() => signal.removeEventListener('abort', abort));
        cleanup.push(
          this.#clock.timer(timeoutMs, () => reject(new CallError('timeout', 'The server did not answer in time'))),
        );
        this.#waiting.set(id, {
          done: ({ ok, error }) =>
            error === undefined ? resolve(ok) : reject(new CallError(error.code, error.message)),
          fail: reject,
        });
        this.#send({ id, timeout_ms: timeoutMs, params });
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
