import type { ApiObject, Client } from '../client.ts';
import { findObject } from '../objects.ts';

/** Mounts a volume in an application of the same server. */
export async function bind(
  client: Client,
  name: string,
  application: string,
  path: string,
  options: { project?: string; readOnly?: boolean },
): Promise<void> {
  const volume = await findObject(client, 'volumes', name, options.project);
  const app = await findObject(client, 'applications', application, options.project);
  await client.request('POST', `/api/v1/volumes/${volume.id}/bind`, {
    workload_type: 'application',
    workload_id: app.id,
    mount_path: path,
    read_only: options.readOnly === true,
  });
  console.log(`${app.name ?? app.id} mounts volume ${name} at ${path}`);
}

/** Takes a volume from what mounts it. */
export async function unbind(client: Client, name: string, options: { project?: string }): Promise<void> {
  const volume = await findObject(client, 'volumes', name, options.project);
  const unbound = await client.object('POST', `/api/v1/volumes/${volume.id}/unbind`, {});
  console.log(`volume ${name} is mounted by nothing; ${dataOf(unbound)}`);
}

/** What is known about the data of a volume: unbinding removes none, but it may be lost already. */
function dataOf({ status, conditions = [] }: ApiObject): string {
  const ready = conditions.find(({ type }) => type === 'Ready');
  return status === 'error' && ready !== undefined ? `it is in error: ${ready.message}` : 'its data stays';
}
