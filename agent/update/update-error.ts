/** Why an update was not carried out, for the user. `reason` is CamelCase; the message says what to do. */
export class UpdateError extends Error {
  readonly reason: string;
  /** It may pass by itself: another attempt is worth its while. */
  readonly isPassing: boolean;

  constructor(reason: string, message: string, { isPassing = false, cause }: UpdateErrorOptions = {}) {
    super(message, { cause });
    this.name = 'UpdateError';
    this.reason = reason;
    this.isPassing = isPassing;
  }
}

interface UpdateErrorOptions {
  isPassing?: boolean;
  cause?: unknown;
}
