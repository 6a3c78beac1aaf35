import type { Client } from '../client.ts';
import { findObject, kindOf, kindWords, rowOfKind, aKind } from '../objects.ts';
import { listEvents } from './describe.ts';

/** Prints the events of an object, newest first. */
export async function events(client: Client, word: string, name: string, options: { project?: string }): Promise<void> {
  const kind = kindOf(word);
  if (!rowOfKind(kind).hasEvents) {
    const others = kindWords().filter((one) => rowOfKind(one).hasEvents);
    throw new Error(`There are no events of ${aKind(kind)}: name one of ${others.join(', ')}`);
  }
  await listEvents(client, kind, await findObject(client, kind, name, options.project), new Date());
}
