import type { Client } from '../client.ts';
import { findObject } from '../objects.ts';
import { waiting } from '../settled.ts';

/** Cancels a deployment that has not ended: `APP/NUMBER`, or the newest of `APP`. */
export async function cancel(
  client: Client,
  name: string,
  options: { project?: string; wait?: boolean },
): Promise<void> {
  const { id } = await findObject(client, 'deployments', name, options.project);
  const query = options.wait === false ? '' : `?${waiting}`;
  const after = await client.object('POST', `/api/v1/deployments/${id}/cancel${query}`, {});
  const is = `Deployment ${String(after['number'])} is ${after.status ?? 'unknown'}`;
  if (options.wait !== false && after.status !== 'cancelled') throw new Error(`${is}: it was not cancelled`);
  console.log(is);
}
