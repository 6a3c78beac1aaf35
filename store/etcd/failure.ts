import { conflict, full, fullUnknown, outcomeUnknown, StoreError, tooLarge, unavailable } from '../errors.ts';

/** Texts of etcd's errors: its client keeps nothing else of an error. */
const texts = {
  compacted: 'required revision has been compacted',
  future: 'required revision is a future revision',
  leaseGone: 'requested lease not found',
  tooLarge: /request is too large|too many operations|received message larger than max/,
  full: 'database space exceeded',
  /** grpc-js gave up before a byte was sent. */
  unsent: /No connection established|Channel closed before call started|Name resolution failed/,
};

function textOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

/** The revision asked for was compacted away. */
export function meansCompacted(error: unknown): boolean {
  return textOf(error).includes(texts.compacted);
}

/** The revision asked for is above the store's. */
export function meansFuture(error: unknown): boolean {
  return textOf(error).includes(texts.future);
}

/** The lease expired or was revoked. */
export function meansLeaseGone(error: unknown): boolean {
  return textOf(error).includes(texts.leaseGone);
}

/** Whether an alarm of a member means that it refuses writes until the alarm is disarmed. */
export function meansNoSpace(alarm: string): boolean {
  return alarm.includes('NOSPACE');
}

/** The request certainly never reached a server, so sending it again cannot do it twice. */
export function isUnsent(error: unknown): boolean {
  return texts.unsent.test(textOf(error));
}

/** The error that a caller of the store gets for a failed call; `what` names what was attempted. */
export function toStoreError(error: unknown, what: string): StoreError {
  if (error instanceof StoreError) return error;
  if (meansLeaseGone(error)) return conflict(`Cannot ${what} as the lease is gone`);
  if (textOf(error).includes(texts.full)) return full(`cannot ${what}: ${textOf(error)}`, error);
  if (texts.tooLarge.test(textOf(error))) return tooLarge(`Cannot ${what}: ${textOf(error)}`);
  return unavailable(`cannot ${what}: ${textOf(error)}`, error);
}

/** Like {@link toStoreError}, for a transaction: it may be written unless it was never sent or etcd refused it. */
export function toCommitError(error: unknown): StoreError {
  const seen = toStoreError(error, 'commit');
  if (seen === error || seen.failure.kind !== 'unavailable' || isUnsent(error)) return seen;
  return outcomeUnknown(`cannot commit: ${textOf(error)}`, error);
}

/** The error of a transaction that etcd refused as its database is full. etcd may have applied the transaction. */
export function toFullUnknown(error: unknown): StoreError {
  return fullUnknown(`cannot commit: ${textOf(error)}`, error);
}
