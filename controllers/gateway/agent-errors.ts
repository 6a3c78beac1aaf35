/** The agent of a server is not connected, or went away before it answered. Trying later may help. */
export class AgentAway extends Error {
  constructor(server: string, options?: ErrorOptions) {
    super(`The agent of server ${server} is not connected`, options);
    this.name = 'AgentAway';
  }
}

/** The agent answered with a failure, or not in time. `message` is for the user. */
export class CallFailed extends Error {
  /** Of the agent, or `timeout`, `too_many`, `too_large`, `malformed`, `failed`. */
  readonly code: string;

  constructor(code: string, message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = 'CallFailed';
    this.code = code;
  }
}
