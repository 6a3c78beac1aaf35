import { visible } from '../../store/visible.ts';

/** Every error code that a client can get, with its HTTP status. The table is closed. */
export const statusOfCode = {
  BAD_REQUEST: 400,
  UNAUTHORIZED: 401,
  FORBIDDEN: 403,
  NOT_FOUND: 404,
  CONFLICT: 409,
  TOO_MANY_REQUESTS: 429,
  INTERNAL_ERROR: 500,
  SERVICE_UNAVAILABLE: 503,
} as const;
export type ErrorCode = keyof typeof statusOfCode;

/** Which field is wrong and why: `reason` is stable and for programs, `message` is for people. */
export interface ErrorDetail {
  field: string;
  reason: string;
  message: string;
}

/**
 * An error that is sent to the client. Text that the client sent is made visible in it (escaped). The text of any other
 * error is not sent: such an error is a bug.
 */
export class ApiError extends Error {
  readonly code: ErrorCode;
  readonly details: readonly ErrorDetail[];
  /** Seconds, sent as `Retry-After`. */
  readonly retryAfter: number | undefined;

  constructor(
    code: ErrorCode,
    message: string,
    options: { details?: readonly ErrorDetail[]; retryAfter?: number; cause?: unknown } = {},
  ) {
    super(visible(message), { cause: options.cause });
    this.name = 'ApiError';
    this.code = code;
    this.details = (options.details ?? []).map(({ field, reason, message: text }) => ({
      field: visible(field),
      reason,
      message: visible(text),
    }));
    this.retryAfter = options.retryAfter;
  }

  get status(): number {
    return statusOfCode[this.code];
  }
}

export function badRequest(message: string, details: readonly ErrorDetail[] = []): ApiError {
  return new ApiError('BAD_REQUEST', message, { details });
}

/** Refuses a field of the body or the query that breaks a rule which its schema cannot express. */
export function badField(field: string, reason: string, message: string): ApiError {
  return new ApiError('BAD_REQUEST', message, { details: [{ field, reason, message }] });
}

export function unauthorized(message = 'Authentication is missing or not valid'): ApiError {
  return new ApiError('UNAUTHORIZED', message);
}

/** A refused login. `reason` is stable: a program can react to it. */
export function refusedLogin(field: string, reason: string, message: string): ApiError {
  return new ApiError('UNAUTHORIZED', message, { details: [{ field, reason, message }] });
}

export function forbidden(
  message = 'Not allowed: your role does not cover this. Ask an owner of the project or an admin of the tenant',
): ApiError {
  return new ApiError('FORBIDDEN', message);
}

/** `kind` is a word for people, for example `Application`. */
export function notFound(kind: string, field?: string): ApiError {
  const message = `${kind} not found`;
  return new ApiError(
    'NOT_FOUND',
    message,
    field === undefined ? {} : { details: [{ field, reason: 'not_found', message }] },
  );
}

export function conflicting(message: string, details: readonly ErrorDetail[] = []): ApiError {
  return new ApiError('CONFLICT', message, { details });
}

export function tooMany(message: string, retryAfter: number): ApiError {
  return new ApiError('TOO_MANY_REQUESTS', message, { retryAfter });
}

/** A bug: the log has the details, the answer has none. */
export function unexpected(): ApiError {
  return new ApiError(
    'INTERNAL_ERROR',
    'Unexpected error: the log of the control plane has its cause under the id of this request',
  );
}

/** What became of the writes of a request that got 503: the `reason` of the first detail, for programs. */
export type Outcome503 = 'not_written' | 'outcome_unknown' | 'partly_written';

const outcomes: Record<Outcome503, string> = {
  not_written: 'nothing was written',
  outcome_unknown: 'whether it was written is unknown: look, or send it again with the same Idempotency-Key',
  partly_written: 'a part of what was asked is written: look before it is sent again',
};

/** `message` names what does not answer; the outcome of the request is added to it. */
export function serviceUnavailable(
  message: string,
  { outcome = 'not_written', cause }: { outcome?: Outcome503; cause?: unknown } = {},
): ApiError {
  const details = [{ field: '', reason: outcome, message: outcomes[outcome] }];
  return new ApiError('SERVICE_UNAVAILABLE', `${message}; ${outcomes[outcome]}`, { details, cause, retryAfter: 1 });
}

/** What is asked for needs the agent of a server, which no replica has a connection to: this may last. */
export function agentAway(cause?: unknown): ApiError {
  const message = 'The agent of the server is not connected: check that the machine is up and runs its agent';
  return lasting('agent_away', message, { cause });
}

/** A 503 that another attempt does not end soon, with the reason for it: clients show it instead of waiting. */
function lasting(
  reason: string,
  message: string,
  { outcome = 'not_written', cause }: { outcome?: Outcome503; cause?: unknown } = {},
): ApiError {
  const details = [
    { field: '', reason: outcome, message: outcomes[outcome] },
    { field: '', reason, message },
  ];
  return new ApiError('SERVICE_UNAVAILABLE', `${message}; ${outcomes[outcome]}`, { details, cause, retryAfter: 30 });
}

/** A write for which the store has no room; only the operator can make room. */
export function storeFull(outcome: Outcome503 = 'not_written', cause?: unknown): ApiError {
  const message = 'The store is full: the operator must make room, see docs/operations.md';
  return lasting('store_full', message, { outcome, cause });
}

/** The leader is of an earlier release and does not know what the request needs, which `unknown` names. */
export function earlierLeader(unknown: string, url: string | undefined): ApiError {
  const message =
    `A replica of an earlier release leads and does not know ${unknown}: ` +
    'the operator must upgrade or stop that replica, then send the request again';
  const cause = new Error(`The leader is ${url ?? 'not in the directory of replicas'}`);
  return lasting('earlier_leader', message, { cause });
}

/** Marks a 503 as `partly_written` if the request had committed something before; returns any other error unchanged. */
export function afterCommit(error: unknown): unknown {
  if (!(error instanceof ApiError) || error.code !== 'SERVICE_UNAVAILABLE') return error;
  const suffix = `; ${outcomes.not_written}`;
  if (!error.message.endsWith(suffix)) return error;
  return serviceUnavailable(error.message.slice(0, -suffix.length), { outcome: 'partly_written', cause: error });
}
