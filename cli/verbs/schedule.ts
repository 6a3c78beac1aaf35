import type { ApiObject, Client } from '../client.ts';
import { findObject, pathOf } from '../objects.ts';
import { whileServerIsAway } from '../server-away.ts';
import { waiting } from '../settled.ts';
import { printBackup, printBackups } from './backup.ts';

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
  const query = options.wait === false ? '' : `?${waiting}`;
  const asking = client.object('POST', `${pathOf('backup-schedules', it)}/run${query}`, {});
  const name = it.name ?? it.id;
  const made = await whileServerIsAway(client, it, asking);
  const { application_id: application } = it;
  if (typeof application !== 'string') return printBackup(client, made, name, options.wait);
  if (options.wait === false) {
    console.log(`All volumes that ${name} mounts are being backed up: setpoint get backups`);
    return;
  }
  // one is made for each volume, of which the answer has the first one
  const all = await client.list(`/api/v1/applications/${application}/volume-backups`);
  const ofRun = all.filter((one) => one['schedule_id'] === it.id && one['requested_at'] === made['requested_at']);
  await printBackups(client, ofRun, options.wait);
}

function nextOf(it: ApiObject): string {
  const next = it['next_run_at'];
  return it.status !== 'paused' && typeof next === 'string' ? `, and next at ${next}` : '';
}
