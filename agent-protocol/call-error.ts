/**
 * A call or a stream failed at the other end, or did not reach it. `message` is for the user. The codes of the protocol
 * itself are `away` (no connection), `timeout`, `cancelled` (the caller left), `too_many`, `too_large`, `unsupported` and `failed`.
 */
export class CallError extends Error {
  readonly code: string;

  constructor(code: string, message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = 'CallError';
    this.code = code;
  }
}

/** The part of an error that may be sent to the other side: code and message of a CallError, nothing of others. */
export function sendableError(error: unknown): { code: string; message: string } {
  if (error instanceof CallError) return { code: error.code.slice(0, 64), message: error.message.slice(0, 500) };
  return { code: 'failed', message: 'Failed on the other side: its log has the cause' };
}
