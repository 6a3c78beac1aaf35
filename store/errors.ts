import type { CommitFailure } from './commit-failure.ts';
import type { Revision } from './revision.ts';

/** What went wrong in a store, by what a caller can do about it. */
export type StoreFailure =
  | { kind: 'conflict'; reason?: CommitFailure }
  | { kind: 'compacted'; compactedTo: Revision }
  | { kind: 'rewound'; incarnation: string }
  | { kind: 'unavailable' }
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

/** A guard of the transaction failed: somebody else wrote first. Read again and decide again. */
export function isConflict(error: unknown): boolean {
  return failureOf(error)?.kind === 'conflict';
}

/** Which guard made the conflict, by what it means; `undefined` if the error is no conflict or does not say. */
export function conflictReason(error: unknown): CommitFailure | undefined {
  const failure = failureOf(error);
  return failure?.kind === 'conflict' ? failure.reason : undefined;
}

/** The wanted revision was compacted away: list, compare, and go on from the list's revision. */
export function isCompacted(error: unknown): boolean {
  return failureOf(error)?.kind === 'compacted';
}

/** History is shorter than the revision asked for: the store was restored or replaced. */
export function isRewound(error: unknown): boolean {
  return failureOf(error)?.kind === 'rewound';
}

/** The store did not answer in time. Retryable; the outcome of a transaction is unknown. */
export function isUnavailable(error: unknown): boolean {
  return failureOf(error)?.kind === 'unavailable';
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

export function tooLarge(what: string): StoreError {
  return new StoreError(what, { kind: 'too-large' });
}

export function conflict(what: string, reason?: CommitFailure): StoreError {
  return new StoreError(what, reason ? { kind: 'conflict', reason } : { kind: 'conflict' });
}
