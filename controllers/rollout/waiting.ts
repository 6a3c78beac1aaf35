import { upToDate } from '../runtime/up-to-date.ts';
import { isReady, isWanted } from './slots.ts';
import type { Assignment } from './slots.ts';

/** Notes of the agent that say why an instance is not ready, the one that tells most first. */
const telling = ['Unreachable', 'HealthCheck'];

/** What an instance that is to become ready is waited for, as its agent sees it; `undefined` as long as nothing is amiss. */
export function awaitedOf(instances: readonly Assignment[]): string | undefined {
  const notes = instances.filter((it) => isWanted(it) && !isReady(it)).flatMap((it) => upToDate(it)?.notes ?? []);
  return telling.map((type) => notes.find((note) => note.type === type)?.message).find((it) => it !== undefined);
}
