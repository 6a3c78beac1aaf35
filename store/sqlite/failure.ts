import { full, outcomeUnknown, unavailable } from '../errors.ts';
import type { StoreError } from '../errors.ts';

/** Primary result codes of SQLite: the low byte of an error's code. */
const busy = 5;
const noRoom = 13;
/** The file of the shared index, which is beside the database, cannot grow. */
const noRoomForIndex = 4874;

/**
 * The error that a caller gets for a failed transaction. If the file was busy or full, nothing was written. After
 * another disk error the transaction may be found written when the file is opened again.
 */
export function toCommitError(error: unknown): StoreError {
  const what = `cannot commit: ${error instanceof Error ? error.message : String(error)}`;
  const code = error instanceof Error && 'errcode' in error ? Number(error.errcode) : 0;
  if ((code & 0xff) === noRoom || code === noRoomForIndex) return full(what, error);
  return (code & 0xff) === busy ? unavailable(what, error) : outcomeUnknown(what, error);
}

/** The database is held by another process, or by another connection of this one. */
export function isBusy(error: unknown): boolean {
  return error instanceof Error && 'errcode' in error && (Number(error.errcode) & 0xff) === busy;
}
