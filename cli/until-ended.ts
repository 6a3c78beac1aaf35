import { setTimeout as delay } from 'node:timers/promises';
import type { ApiObject, Client } from './client.ts';
import type { CliKind } from './objects.ts';
import { pathOf } from './objects.ts';

const pauseMs = 2000;

/** How objects that end are when nothing is done for them any more, or a person has to decide. */
const ends = {
  backups: ['completed', 'failed', 'expired', 'deleting'],
  restores: ['completed', 'failed', 'ready_to_switch', 'deleting'],
  previews: ['ready', 'failed', 'awaiting_approval', 'deleting'],
} as const satisfies Partial<Record<CliKind, readonly string[]>>;

/**
 * Reads an object again until it has ended: the answer to what made it came after four minutes at the latest. Ctrl-C ends
 * the wait. @throws Refused once it is gone
 */
export async function untilEnded(client: Client, kind: keyof typeof ends, made: ApiObject): Promise<ApiObject> {
  const known: readonly string[] = ends[kind];
  let it = made;
  while (!known.includes(it.status ?? '')) {
    await delay(pauseMs);
    it = await client.object('GET', pathOf(kind, it));
  }
  return it;
}

/** Prints how far something is that is not waited for. @throws Error with the same words where it was waited for */
export function printOpen(words: string, wait: boolean | undefined): void {
  if (wait !== false) throw new Error(words);
  console.log(words);
}
