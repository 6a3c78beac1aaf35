import { badField } from '../ground/api-error.ts';

/** Where a reader of several logs stands. */
export interface MergedPosition {
  /** Sources without a position begin with lines of this time, in milliseconds since 1970. */
  since: number;
  /** Numbers of the last lines, by source. */
  positions: ReadonlyMap<string, number>;
}

/** The cursor of a reader that got no line yet: it begins as without a cursor. */
export const startCursor = 'start';

const form = /^[0-9a-z]{1,10}(~[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\.[0-9a-z]{1,11}){0,32}$/;

export function mergedCursorOf({ since, positions }: MergedPosition): string {
  return [since.toString(36), ...[...positions].map(([id, seq]) => `${id}.${seq.toString(36)}`)].join('~');
}

/** @throws ApiError BAD_REQUEST */
export function parseMergedCursor(cursor: string): MergedPosition | undefined {
  if (cursor === startCursor) return undefined;
  if (!form.test(cursor))
    throw badField('cursor', 'invalid', 'Cursor is not one of this stream: open it without a cursor');
  const [since = '', ...parts] = cursor.split('~');
  const positions = parts.map((part): [string, number] => {
    const [id = '', seq = ''] = part.split('.');
    return [id, Number.parseInt(seq, 36)];
  });
  return { since: Number.parseInt(since, 36), positions: new Map(positions) };
}
