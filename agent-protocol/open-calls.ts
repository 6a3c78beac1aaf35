import { CallError } from './call-error.ts';
import type { Clock } from './clock.ts';
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

  /** @throws CallError of the agent, or `away`, `timeout`, `too_many`; the signal's reason when aborted. */
  async call(params: CallParams, timeoutMs: number, signal: AbortSignal): Promise<unknown> {
    if (this.#waiting.size >= bounds.calls)
      throw new CallError('too_many', `At most ${bounds.calls} calls to one server at once`);
    const id = this.#next++;
    const cleanup: (() => void)[] = [() => this.#waiting.delete(id)];
    try {
      return await new Promise<unknown>((resolve, reject) => {
        const abort = (): void => reject(signal.reason as Error); // an AbortSignal's reason is an error by our habit
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

  /** An answer that nobody waits for any more is dropped. */
  answered(result: Result): void {
    this.#waiting.get(result.id)?.done(result);
  }

  /** All of them fail so. */
  close(error: CallError): void {
    for (const call of this.#waiting.values()) call.fail(error);
  }
}
