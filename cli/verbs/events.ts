import type { Client } from '../client.ts';
import { findObject, kindOf, kindWords, rowOfKind, singular } from '../objects.ts';
import { listEvents } from './describe.ts';

/** Prints the events of an object, newest first. */
export async function events(client: Client, word: string, name: string, options: { project?: string }): Promise<void> {
  const kind = kindOf(word);
  if (!rowOfKind(kind).hasEvents) {
    const others = kindWords().filter((one) => rowOfKind(one).hasEvents);
    throw new Error(`A ${singular(kind)} has no events: name one of ${others.join(', ')}`);
  }
  await listEvents(client, kind, await findObject(client, kind, name, options.project), new Date());
}
