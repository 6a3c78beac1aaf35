import { createHash } from 'node:crypto';
import { revision } from '../../store/revision.ts';
import type { Revision } from '../../store/revision.ts';
import { badField } from '../ground/api-error.ts';

/** Where a reader stands: a revision of one history. A restored store begins another history with lower revisions. */
export interface Position {
  /** Short hash of the store's incarnation; absent in a cursor of an older version, whose history is unknown. */
  history: string | undefined;
  revision: Revision;
}

const length = 8;
let known = { incarnation: '', hash: '' };

/** The cursor of a stream. `incarnation` is the store's. */
export function cursorOf(incarnation: string, at: Revision): string {
  return `${hashOf(incarnation)}-${at}`;
}

/** @throws ApiError BAD_REQUEST */
export function parseCursor(cursor: string): Position {
  const [text, history, digits] = /^(?:([0-9a-f]{8})-)?(\d{1,15})$/.exec(cursor) ?? [];
  if (text === undefined || digits === undefined)
    throw badField('cursor', 'invalid', 'Cursor is not one of this stream: open it without a cursor');
  return { history, revision: revision(digits) };
}

/** Whether a position is of this history, so that the changes after it are known. */
export function isOfHistory({ history }: Position, incarnation: string): boolean {
  return history === hashOf(incarnation);
}

function hashOf(incarnation: string): string {
  if (known.incarnation !== incarnation)
    known = { incarnation, hash: createHash('sha256').update(incarnation).digest('hex').slice(0, length) };
  return known.hash;
}
