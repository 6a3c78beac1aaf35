import { confirm } from '../ask.ts';
import type { ApiObject, Client } from '../client.ts';
import { Refused } from '../client.ts';
import { findObject, pathOf } from '../objects.ts';
import { whileServerIsAway } from '../server-away.ts';
import { waiting } from '../settled.ts';
import { printOpen, untilEnded } from '../until-ended.ts';

interface Options {
  project?: string;
  wait?: boolean;
  yes?: boolean;
  /** Name of another database. */
  into?: string;
  /** Name of a database or a volume that is made for it. */
  as?: string;
  /** Name of an application that is to mount the volume that is made for it. */
  for?: string;
  /** It is that of a function. */
  function?: boolean;
  /** Where that one mounts it. */
  at?: string;
}

/** Failures whose message says itself what the database serves. */
const saysWhatServes: readonly unknown[] = ['cancelled', 'not_serving'];

/**
 * Brings a backup back: into its database, with `into` into another one, with `as` into a new one. Asks before a database
 * that there is serves other data.
 *
 * @throws Error if the restore failed, with the reason and what the database serves
 */
export async function restore(client: Client, name: string, options: Options): Promise<void> {
  const { as } = options;
  const backup = await findObject(client, 'backups', name, options.project);
  if (backup['kind'] === 'volume') return restoreVolume(client, backup, options);
  if (options.for !== undefined || options.at !== undefined)
    throw new Error('--for and --at are of a backup of a volume, and this one is of a database');
  const target = as === undefined ? await targetOf(client, backup, options) : undefined;
  if (target !== undefined && options.yes !== true)
    await confirm(
      `Restore database ${target.name ?? target.id} as it was at ${String(backup['requested_at'])}? What was written since is in its former volume for a week, and is not served any more.`,
    );
  const query = options.wait === false ? '' : `?${waiting}`;
  const body = target === undefined ? { new_name: as } : { database_id: target.id };
  const asking = client.object('POST', `/api/v1/backups/database/${backup.id}/restore${query}`, body);
  const made = await whileServerIsAway(client, target ?? backup, asking);
  await printRestore(client, made, { isNew: target === undefined, wait: options.wait });
}

/** Brings the backup of a volume back into it, or with `as` or `for` into a new one. */
async function restoreVolume(client: Client, backup: ApiObject, options: Options): Promise<void> {
  const { as, into, at } = options;
  if (into !== undefined) throw new Error('--into is of a backup of a database: make a new volume by --as or --for');
  if ((options.for === undefined) !== (at === undefined)) throw new Error('--for and --at belong together');
  const isNew = as !== undefined || options.for !== undefined;
  const mount = await mountBy(client, options);
  if (!isNew && options.yes !== true)
    await confirm(
      `Restore volume ${backup.name ?? ''} as it was at ${String(backup['requested_at'])}? What mounts it is replaced, and what was written since is in another volume for a week.`,
    );
  const query = options.wait === false ? '' : `?${waiting}`;
  const body = isNew
    ? {
        ...(as !== undefined && { name: as }),
        ...mount,
      }
    : {};
  const path = `/api/v1/backups/volume/${backup.id}/${isNew ? 'clone' : 'restore'}${query}`;
  const asked = await whileServerIsAway(client, backup, client.object('POST', path, body));
  const made = options.wait === false ? asked : await untilEnded(client, 'restores', asked);
  const error = made['error'] as { message: string } | null; // of the schema Restore
  if (made.status === 'failed')
    throw new Error(`The restore of ${made.name ?? made.id} failed: ${error?.message ?? 'the reason is not known'}`);
  if (made.status === 'completed')
    console.log(`restore ${made.id} is completed: volume ${made.name ?? ''} has what was restored`);
  else
    printOpen(
      `restore ${made.id} is ${made.status ?? 'requested'}: setpoint describe restore ${made.id}`,
      options.wait,
    );
}

/** The fields that say what mounts the new volume, and where; none without `for`. */
async function mountBy(client: Client, { for: name, function: isFunction, at, project }: Options): Promise<object> {
  if (name === undefined) return {};
  const kind = isFunction === true ? 'function' : 'application';
  const { id } = await findObject(client, `${kind}s`, name, project);
  return { workload_type: kind, workload_id: id, mount_path: at };
}

/** The database that there is, and that the backup goes into. */
async function targetOf(client: Client, backup: ApiObject, { into, project }: Options): Promise<ApiObject> {
  if (into !== undefined) return findObject(client, 'databases', into, project);
  try {
    return await client.object('GET', pathOf('databases', { id: String(backup['resource_id']) }));
  } catch (error) {
    if (!(error instanceof Refused) || error.status !== 404) throw error;
    const message = `Database ${backup.name ?? ''} is gone: restore the backup into a new one by --as, or into another one by --into`;
    throw new Error(message, { cause: error });
  }
}

/**
 * Prints how a restore into a database ended, or, without `wait`, how far it is. @throws Error if it failed, with what the
 * database serves
 */
export async function printRestore(
  client: Client,
  asked: ApiObject,
  { isNew, wait }: { isNew: boolean; wait: boolean | undefined },
): Promise<void> {
  const made = wait === false ? asked : await untilEnded(client, 'restores', asked);
  const name = made.name ?? made.id;
  switch (made.status) {
    case 'completed':
      console.log(`restore ${made.id} is completed: database ${name} serves what was restored`);
      return;
    case 'failed': {
      const error = made['error'] as { code: string; message: string } | null; // of the schema Restore
      const why = `The restore of ${name} failed: ${error?.message ?? 'the reason is not known'}`;
      if (!isNew && saysWhatServes.includes(error?.code)) throw new Error(why);
      throw new Error(`${why.replace(/\.$/, '')}. ${await whatServes(client, made, isNew)}`);
    }
    default:
      printOpen(
        `restore ${made.id} of ${name} is ${made.status ?? 'requested'}: setpoint describe restore ${made.id}`,
        wait,
      );
  }
}

/** What is to be had of the database after a restore that failed. */
async function whatServes(client: Client, made: ApiObject, isNew: boolean): Promise<string> {
  const name = made.name ?? made.id;
  if (isNew) return `Database ${name} was made for it, and serves nothing: delete it`;
  const path = pathOf('databases', { id: String(made['database_id']) });
  const database = await client.object('GET', path).catch(() => undefined); // the reason above is worth more
  return `Database ${name} has the data from before, and is ${database?.status ?? 'in an unknown state'}`;
}
