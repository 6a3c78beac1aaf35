import type { ApiObject, Client } from '../client.ts';
import { findObject, pathOf } from '../objects.ts';
import { whileServerIsAway } from '../server-away.ts';
import { waiting } from '../settled.ts';
import { printBackup } from './backup.ts';

interface Options {
  project?: string;
  wait?: boolean;
}

/**
 * Backs up by a schedule now, pauses it, or lets it go on. A schedule has the name of what it backs up.
 *
 * @throws Error if the backup failed
 */
export async function schedule(client: Client, action: string, name: string, options: Options): Promise<void> {
  if (!isAction(action)) throw new Error(`It must be run, pause or resume: got ${action}`);
  const it = await findObject(client, 'backup-schedules', name, options.project);
  if (action === 'run') return runNow(client, it, options);
  const after = await client.object('PUT', pathOf('backup-schedules', it), { is_paused: action === 'pause' });
  console.log(`backup-schedule ${after.id} of ${after.name ?? ''} is ${after.status ?? 'changed'}${nextOf(after)}`);
}

function isAction(text: string): text is 'run' | 'pause' | 'resume' {
  return text === 'run' || text === 'pause' || text === 'resume';
}

async function runNow(client: Client, it: ApiObject, options: Options): Promise<void> {
  // of an application one backup for each volume is made, of which the answer has the first one
  const isOfVolumes = typeof it['application_id'] === 'string';
  const query = options.wait === false || isOfVolumes ? '' : `?${waiting}`;
  const asking = client.object('POST', `${pathOf('backup-schedules', it)}/run${query}`, {});
  const name = it.name ?? it.id;
  if (!isOfVolumes) return printBackup(await whileServerIsAway(client, it, asking), name);
  await asking;
  console.log(`All volumes that ${name} mounts are backed up: setpoint get backups`);
}

function nextOf(it: ApiObject): string {
  const next = it['next_run_at'];
  return it.status !== 'paused' && typeof next === 'string' ? `, and next at ${next}` : '';
}
