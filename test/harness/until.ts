import { setTimeout as delay } from 'node:timers/promises';

/**
 * Asks again and again until `probe` answers with something; polls, since what is asked lies in another process.
 *
 * @throws Error after `timeoutMs` with the description, the last answer and what `explain` adds.
 */
export async function until<T>(
  what: string,
  probe: () => Promise<T | undefined | false>,
  options: { timeoutMs?: number; everyMs?: number; explain?: () => Promise<string> } = {},
): Promise<T> {
  const deadline = performance.now() + (options.timeoutMs ?? 30_000);
  let last: unknown;
  for (;;) {
    try {
      const answer = await probe();
      if (answer !== undefined && answer !== false) return answer;
      last = answer;
    } catch (error) {
      last = error;
    }
    if (performance.now() > deadline) break;
    await delay(options.everyMs ?? 50);
  }
  const detail = last instanceof Error ? last.message : JSON.stringify(last);
  const more = options.explain === undefined ? '' : `\n${await options.explain()}`;
  throw new Error(`Did not happen in time: ${what} (last: ${detail})${more}`);
}

/** Samples that a count must have in a row to stand still: on a busy machine, two that are equal say little. */
const samples = 8;

/**
 * Waits until a count, or each of several, is the same in eight looks; `undefined` is no count yet. Answers with the last
 * one. @throws Error as `until` does
 */
export async function standsStill<T extends number | readonly number[]>(
  what: string,
  count: () => Promise<T | undefined>,
): Promise<T> {
  let last = '';
  let equal = 0;
  return until(
    `${what} stands still`,
    async () => {
      const now = await count();
      const text = JSON.stringify(now);
      equal = text === last ? equal + 1 : 1;
      last = text;
      return equal < samples ? undefined : now;
    },
    { timeoutMs: 60_000, everyMs: 150 },
  );
}
