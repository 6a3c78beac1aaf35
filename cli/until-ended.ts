import { setTimeout as delay } from 'node:timers/promises';
import { displayable } from '../api/streams/log-frames.ts';
import { NoAnswer, Refused } from './client.ts';
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

/** Reads in a row that may get no answer: a control plane that is upgraded is back by then. */
const mostFailures = 30;

/**
 * Reads an object again until it has ended: the answer to what made it came after four minutes at the latest. A read without
 * an answer is repeated. Ctrl-C ends the wait. @throws Refused once it is gone; NoAnswer
 */
export async function untilEnded(client: Client, kind: keyof typeof ends, made: ApiObject): Promise<ApiObject> {
  const known: readonly string[] = ends[kind];
  let it = made;
  for (let failures = 0; !known.includes(it.status ?? '');) {
    await delay(pauseMs);
    const read = await client.object('GET', pathOf(kind, it)).catch((error: unknown) => {
      if (!mayPass(error) || ++failures > mostFailures) throw error;
      if (failures === 1) console.error(displayable(`… ${error.message}: tries again`));
    });
    if (read === undefined) continue;
    failures = 0;
    it = read;
  }
  return it;
}

/** Whether another read may succeed soon. */
function mayPass(error: unknown): error is Error {
  return error instanceof NoAnswer || (error instanceof Refused && (error.status === 429 || error.status >= 500));
}

/** Prints how far something is that is not waited for. @throws Error with the same words where it was waited for */
export function printOpen(words: string, wait: boolean | undefined): void {
  if (wait !== false) throw new Error(words);
  console.log(words);
}
