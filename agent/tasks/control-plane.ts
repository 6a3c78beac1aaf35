import { answerOf } from '../../agent-protocol/answer.ts';
import { CallError } from '../../agent-protocol/call-error.ts';
import { Addresses } from '../../agent-protocol/messages.ts';
import type { AskParams } from '../../agent-protocol/messages.ts';
import { RuntimeFailure } from '../runtime/runtime.ts';

interface Session {
  ask(params: AskParams, signal: AbortSignal): Promise<unknown>;
}

/** The control plane as tasks ask it: only while the agent is connected. */
export class ControlPlane {
  #session: Session | undefined;

  /** The control plane welcomed the agent in this session. */
  entered(session: Session): void {
    this.#session = session;
  }

  left(): void {
    this.#session = undefined;
  }

  /**
   * Asks for addresses that are signed for a task.
   *
   * @throws RuntimeFailure `transfer_failed`, not retryable, if the task is not wanted any more; CallError with another
   * code of the control plane, or `away` while there is none; the signal's reason when aborted
   */
  async addresses(params: AskParams, signal: AbortSignal): Promise<readonly string[]> {
    if (this.#session === undefined)
      throw new CallError('away', 'The agent is not connected to the control plane at the moment');
    const answer = await wanted(this.#session.ask(params, signal));
    return answerOf(Addresses, answer, 'control plane').addresses;
  }
}

async function wanted<T>(asking: Promise<T>): Promise<T> {
  try {
    return await asking;
  } catch (error) {
    if (!(error instanceof CallError) || error.code !== 'not_assigned') throw error;
    throw new RuntimeFailure('transfer_failed', error.message, { retryable: false, cause: error });
  }
}
