import type { Execution } from '../../agent-protocol/functions.ts';

/** Why a call of a function has no answer of it. The message is for whoever calls it. */
export class CallFault extends Error {
  readonly code:
    | 'not_running'
    | 'queue_full'
    | 'start_failed'
    | 'timed_out'
    | 'out_of_memory'
    | 'instance_ended'
    | 'client_gone'
    | 'not_taken'
    | 'not_sent'
    | 'too_large';
  /** Seconds after which another call may succeed. */
  readonly retryAfter: number | undefined;

  /** The record of the call. */
  execution: Execution | undefined;

  constructor(code: CallFault['code'], message: string, options: ErrorOptions & { retryAfter?: number } = {}) {
    super(message, options);
    this.name = 'CallFault';
    this.code = code;
    this.retryAfter = options.retryAfter;
  }

  /** Whether its caller held the call up, and not the instance. */
  get isOfCaller(): boolean {
    return this.code === 'not_taken' || this.code === 'not_sent';
  }

  /** Of the answer by HTTP. */
  get status(): number {
    switch (this.code) {
      case 'not_running':
      case 'queue_full':
        return 503;
      case 'timed_out':
        return 504;
      case 'not_sent':
        return 408;
      case 'too_large':
        return 413;
      case 'start_failed':
      case 'out_of_memory':
      case 'instance_ended':
      case 'client_gone':
      case 'not_taken':
        return 502;
    }
  }
}
