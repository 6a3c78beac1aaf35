/**
 * A call or a stream failed at the other end, or could not reach it. `message` is for the user. Codes of the protocol
 * itself: `away` (no connection), `timeout`, `too_many`, `too_large`, `unsupported`, `failed`.
 */
export class CallError extends Error {
  readonly code: string;

  constructor(code: string, message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = 'CallError';
    this.code = code;
  }
}

/** What may be told of an error to the other side: the code and message of a CallError, nothing of any other. */
export function tellable(error: unknown): { code: string; message: string } {
  if (error instanceof CallError) return { code: error.code.slice(0, 64), message: error.message.slice(0, 500) };
  return { code: 'failed', message: 'Failed on the server: its agent log has the cause' };
}
