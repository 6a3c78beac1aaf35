/** Why an update was not carried out, for the user. `reason` is CamelCase; the message says what to do. */
export class UpdateError extends Error {
  readonly reason: string;
  /** It may pass by itself: another attempt is worth its while. */
  readonly isPassing: boolean;
  /** The control plane asks for another attempt after this time, as many agents fetch the release at once. */
  readonly retryAfterMs: number | undefined;

  constructor(reason: string, message: string, { isPassing = false, retryAfterMs, cause }: UpdateErrorOptions = {}) {
    super(message, { cause });
    this.name = 'UpdateError';
    this.reason = reason;
    this.isPassing = isPassing;
    this.retryAfterMs = retryAfterMs;
  }
}

interface UpdateErrorOptions {
  isPassing?: boolean;
  retryAfterMs?: number | undefined;
  cause?: unknown;
}
