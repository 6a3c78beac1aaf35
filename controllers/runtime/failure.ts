import { isConflict, isTooLarge, isUnavailable } from '../../store/errors.ts';

/**
 * Why a reconcile did not succeed, in words that may be shown to every user of the object: the thing, the rule and the
 * value; no secret, no time, no number of the attempt. The reconcile is retried with backoff.
 */
export class Failure extends Error {
  /** CamelCase, stable. */
  readonly reason: string;

  constructor(reason: string, message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = 'Failure';
    this.reason = reason;
  }
}

/** A {@link Failure} that no retry can cure before the desired state changes. */
export class Stalled extends Failure {
  constructor(reason: string, message: string, options?: ErrorOptions) {
    super(reason, message, options);
    this.name = 'Stalled';
  }
}

/** The class of an error that a reconcile threw, by which the runtime reacts. */
export type Cause =
  /** Another writer was first: read again and decide again. */
  | { cause: 'conflict' }
  | { cause: 'unavailable' }
  /** `mayPass`: it follows from other objects as well, which change without the desired state. */
  | { cause: 'stalled'; reason: string; message: string; mayPass: boolean }
  | { cause: 'error'; reason: string; message: string; expected: boolean };

/** Texts of unexpected errors stay in the log: they may hold secrets and change with every attempt. */
export function causeOf(error: unknown): Cause {
  if (isConflict(error)) return { cause: 'conflict' };
  if (isUnavailable(error)) return { cause: 'unavailable' };
  if (error instanceof Stalled)
    return { cause: 'stalled', reason: error.reason, message: error.message, mayPass: false };
  if (error instanceof Failure) return { cause: 'error', reason: error.reason, message: error.message, expected: true };
  if (isTooLarge(error) && error instanceof Error)
    return { cause: 'stalled', reason: 'TooLarge', message: error.message, mayPass: true };
  return {
    cause: 'error',
    reason: 'InternalError',
    message: 'Internal error: the log of the control plane has the cause',
    expected: false,
  };
}
