import type { Client } from '../client.ts';
import { findObject, kindOf, singular } from '../objects.ts';
import { hasEvents, printEvents } from './describe.ts';

/** Prints the events of an object, newest first. */
export async function events(client: Client, word: string, name: string, options: { project?: string }): Promise<void> {
  const kind = kindOf(word);
  if (!hasEvents(kind))
    throw new Error(`Of a ${singular(kind)} no events are kept: servers, applications, deployments`);
  await printEvents(client, kind, await findObject(client, kind, name, options.project), new Date());
}
