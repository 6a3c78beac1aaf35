import { CallError } from '../../agent-protocol/call-error.ts';

/** The agent of a server is not connected, or went away before it answered. Trying later may help. */
export class AgentAway extends CallError {
  constructor(server: string, options?: ErrorOptions) {
    super('away', `The agent of server ${server} is not connected`, options);
    this.name = 'AgentAway';
  }
}

/**
 * The agent answered with a failure, or not in time. `message` is for the user; the code is the agent's, or `timeout`,
 * `too_many`, `too_large`, `malformed`, `failed`.
 */
export class CallFailed extends CallError {
  constructor(code: string, message: string, options?: ErrorOptions) {
    super(code, message, options);
    this.name = 'CallFailed';
  }
}
