import { setTimeout as delay } from 'node:timers/promises';
import type { Client } from './client.ts';
import { Refused, StreamCut } from './client.ts';

type Frame = Record<string, unknown>;

const pauseMs = 1000;
/** Attempts without one frame in between. */
const mostAttempts = 30;

/** What a frame of type `gap` of a log says: how many lines are missing where it stands; 1 is said also where they were not counted. */
export function gapLine({ dropped }: Record<string, unknown>): string {
  return `… ${typeof dropped === 'number' && dropped > 1 ? dropped : 'some'} lines are missing`;
}

/**
 * Yields the frames of a stream. If the stream breaks, it is opened again after the last frame with a cursor. `again`
 * are the parts of the query that change then.
 *
 * @throws Refused when the server refuses it for good; Error when it cannot be opened again.
 */
export async function* resumed(
  client: Client,
  path: string,
  query: Record<string, string>,
  again: Record<string, string>,
  signal: AbortSignal,
): AsyncGenerator<Frame> {
  let cursor: string | undefined;
  let shown: string | undefined;
  for (let attempts = 0; ;) {
    const now = cursor === undefined ? query : { ...query, ...again, cursor };
    try {
      for await (const frame of client.stream(path, now, signal)) {
        if (typeof frame['cursor'] === 'string') cursor = frame['cursor'];
        attempts = 0;
        shown = undefined;
        yield frame;
      }
      return;
    } catch (error) {
      const mayReturn = error instanceof StreamCut || (cursor !== undefined && !isFinal(error));
      if (!mayReturn || ++attempts > mostAttempts) throw error;
      const why = error instanceof Error ? error.message : String(error);
      if (why !== shown) console.error(`… ${why}: connecting again`);
      shown = why;
      await delay(pauseMs, undefined, { signal }).catch(() => undefined); // aborted: the next stream ends at once
    }
  }
}

/** Whether another attempt cannot succeed: the object is gone, or the session has ended. */
function isFinal(error: unknown): boolean {
  return error instanceof Refused && error.status < 500 && error.status !== 429;
}
