import type { ApiObject, Client } from '../client.ts';
import { findObject, pathOf } from '../objects.ts';
import { whileServerIsAway } from '../server-away.ts';
import { openEnd, waiting } from '../settled.ts';

/**
 * Mounts a volume in an application or a function of the same server, and waits for the instances that have it.
 * @throws Error if that did not come up again
 */
export async function bind(
  client: Client,
  name: string,
  workload: string,
  path: string,
  options: { project?: string; readOnly?: boolean; function?: boolean; wait?: boolean },
): Promise<void> {
  const kind = options.function === true ? 'functions' : 'applications';
  const volume = await findObject(client, 'volumes', name, options.project);
  const app = await findObject(client, kind, workload, options.project);
  const query = options.wait === false ? '' : `?${waiting}`;
  const answer = client.request('POST', `/api/v1/volumes/${volume.id}/bind${query}`, {
    workload_type: kind === 'functions' ? 'function' : 'application',
    workload_id: app.id,
    mount_path: path,
    read_only: options.readOnly === true,
  });
  await whileServerIsAway(client, app, answer);
  const done = `${app.name ?? app.id} mounts volume ${name} at ${path}`;
  const trouble = options.wait === false ? undefined : troubleOf(app, await client.object('GET', pathOf(kind, app)));
  if (trouble !== undefined) throw new Error(`${done}, and is not ready with it: ${trouble}`);
  console.log(done);
}

/** Why a workload does not run with its new mounts; `undefined` if it does, or did not run before. */
function troubleOf({ status: before }: ApiObject, now: ApiObject): string | undefined {
  const open = openEnd(now);
  if (open !== undefined || before !== 'running' || now.status === before) return open;
  return now.conditions?.find(({ type }) => type === 'Ready')?.message ?? `it is ${now.status ?? 'unknown'}`;
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
