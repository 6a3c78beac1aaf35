import type { KindName } from './kinds/kinds.ts';
import type { Ref } from './resource.ts';
import type { Revision } from './revision.ts';

/** Why a transaction was refused, in terms that a caller can report to its own caller. */
export type CommitFailure =
  /** An object of that id exists already. */
  | { why: 'exists'; ref: Ref }
  /** An object that was read does not exist any more. */
  | { why: 'gone'; ref: Ref }
  /** Another object holds the name, which is given normalised; `holder` is its id. */
  | { why: 'name-taken'; kind: KindName; scope: string; name: string; holder: string | undefined }
  /** An object was written since it was read, or another object entered it: read again and decide again. */
  | { why: 'changed'; ref: Ref }
  /** A guard failed on a key that is no object: of a lease that was lost, or an idempotency record. */
  | { why: 'key'; key: string };

/** What went wrong in a store, by what a caller can do about it. */
export type StoreFailure =
  | { kind: 'conflict'; reason?: CommitFailure }
  | { kind: 'compacted'; compactedTo: Revision }
  | { kind: 'rewound'; incarnation: string }
  /** `mayBeWritten`, here and in `full`: a transaction was sent, and its outcome is unknown. */
  | { kind: 'unavailable'; mayBeWritten?: true }
  | { kind: 'full'; mayBeWritten?: true }
  | { kind: 'too-large' };

/** The one error class of a store. Callers use the predicates below and never look at the class. */
export class StoreError extends Error {
  readonly failure: StoreFailure;

  constructor(message: string, failure: StoreFailure, options?: ErrorOptions) {
    super(message, options);
    this.name = 'StoreError';
    this.failure = failure;
  }
}

function failureOf(error: unknown): StoreFailure | undefined {
  return error instanceof StoreError ? error.failure : undefined;
}

/** A guard of the transaction failed: another writer was first. Read again and decide again. */
export function isConflict(error: unknown): boolean {
  return failureOf(error)?.kind === 'conflict';
}

/** Which guard failed, and what that means; `undefined` if the error is no conflict or has no reason. */
export function conflictReason(error: unknown): CommitFailure | undefined {
  const failure = failureOf(error);
  return failure?.kind === 'conflict' ? failure.reason : undefined;
}

/** The wanted revision was compacted away: list, compare, and go on from the list's revision. */
export function isCompacted(error: unknown): boolean {
  return failureOf(error)?.kind === 'compacted';
}

/** The revision up to which history was compacted; `undefined` for any other error. */
export function compactedTo(error: unknown): Revision | undefined {
  const failure = failureOf(error);
  return failure?.kind === 'compacted' ? failure.compactedTo : undefined;
}

/** History is shorter than the revision asked for: the store was restored or replaced. */
export function isRewound(error: unknown): boolean {
  return failureOf(error)?.kind === 'rewound';
}

/** The store did not answer in time, or it is full. Retryable; see {@link mayBeWritten} for the outcome. */
export function isUnavailable(error: unknown): boolean {
  const kind = failureOf(error)?.kind;
  return kind === 'unavailable' || kind === 'full';
}

/** The transaction was sent and its outcome is unknown. False: nothing was written. */
export function mayBeWritten(error: unknown): boolean {
  const failure = failureOf(error);
  return (failure?.kind === 'unavailable' || failure?.kind === 'full') && failure.mayBeWritten === true;
}

/** The store refused a write as it has no room left; see {@link mayBeWritten}. Deletions may still be possible. */
export function isFull(error: unknown): boolean {
  return failureOf(error)?.kind === 'full';
}

/** The value, the transaction or the number of operations exceeds {@link limits}. Never retryable. */
export function isTooLarge(error: unknown): boolean {
  return failureOf(error)?.kind === 'too-large';
}

export function compacted(compactedTo: Revision): StoreError {
  return new StoreError(`History was compacted up to revision ${compactedTo}`, { kind: 'compacted', compactedTo });
}

export function rewound(incarnation: string, detail: string): StoreError {
  return new StoreError(`History was rewound: ${detail}`, { kind: 'rewound', incarnation });
}

export function unavailable(what: string, cause?: unknown): StoreError {
  return new StoreError(`Store did not answer: ${what}`, { kind: 'unavailable' }, { cause });
}

/** The error of a transaction that was sent but not answered. */
export function outcomeUnknown(what: string, cause?: unknown): StoreError {
  const message = `Store did not answer, and what was sent may be written: ${what}`;
  return new StoreError(message, { kind: 'unavailable', mayBeWritten: true }, { cause });
}

export function full(what: string, cause?: unknown): StoreError {
  return new StoreError(`Store is full, nothing was written: ${what}`, { kind: 'full' }, { cause });
}

/** The error of a write that a full store refused but may have applied. */
export function fullUnknown(what: string, cause?: unknown): StoreError {
  const message = `Store is full, and what was sent may be written: ${what}`;
  return new StoreError(message, { kind: 'full', mayBeWritten: true }, { cause });
}

export function tooLarge(what: string): StoreError {
  return new StoreError(what, { kind: 'too-large' });
}

export function conflict(what: string, reason?: CommitFailure): StoreError {
  return new StoreError(what, reason ? { kind: 'conflict', reason } : { kind: 'conflict' });
}
