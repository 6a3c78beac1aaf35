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
