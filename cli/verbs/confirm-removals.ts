import { z } from 'zod';
import type { Client } from '../client.ts';
import { findObject, pathOf } from '../objects.ts';

const Confirmed = z.object({ held: z.number() });

/** Lets a server remove the instances that a restored store does not know. */
export async function confirmRemovals(client: Client, name: string): Promise<void> {
  const server = await findObject(client, 'servers', name);
  const answer = await client.request('POST', `${pathOf('servers', server)}/confirm-removals`);
  console.log(`Confirmed: ${server.name ?? server.id} removes ${Confirmed.parse(answer).held} of its instances`);
}
