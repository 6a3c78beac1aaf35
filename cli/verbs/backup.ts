import { z } from 'zod';
import { bytes } from '../bytes.ts';
import { ApiObject } from '../client.ts';
import type { Client } from '../client.ts';
import { findObject, listObjects } from '../objects.ts';
import { placeOf } from '../place.ts';
import { whileServerIsAway } from '../server-away.ts';
import { waiting } from '../settled.ts';
import { printOpen, untilEnded } from '../until-ended.ts';

interface Options {
  project?: string;
  wait?: boolean;
  /** Name of a destination. */
  to?: string;
  /** A cron expression. */
  every?: string;
  timezone?: string;
  /** Good backups that stay. */
  keep?: number;
  /** After so long the newest backup is restored for trial. */
  verify?: string;
  /** Name of the destination whose backups are imported. */
  destination?: string;
  /** Name of the server where they are restored. */
  on?: string;
}

const Imported = z.object({
  imported: z.array(ApiObject),
  known: z.number(),
  skipped: z.array(z.object({ manifest_key: z.string(), reason: z.string() })),
  next: z.string().nullable(),
});

/** Backs up a database, a volume or the volumes of an application now, or, with `every`, again and again. @throws Error if the backup failed */
export async function backup(client: Client, name: string, options: Options): Promise<void> {
  const { to, every, timezone, keep, verify, destination: from } = options;
  if (from !== undefined) {
    if (name !== 'import') throw new Error('--destination is of backup import: name the bucket of a backup by --to');
    return importBackups(client, from, options);
  }
  const { kind, it } = await backedUp(client, name, options.project);
  const destination =
    to === undefined ? {} : { destination_id: (await findObject(client, 'backup-destinations', to)).id };
  if (every !== undefined) {
    const made = await client.object('POST', '/api/v1/backup-schedules', {
      [`${kind}_id`]: it.id,
      ...destination,
      cron_expression: every,
      ...(timezone !== undefined && { timezone }),
      ...(keep !== undefined && { retention_count: keep }),
      ...(verify !== undefined && { verify_every: verify }),
    });
    console.log(`backup-schedule ${made.id} is created: ${name} is backed up at ${every} ${timezone ?? 'UTC'}`);
    return;
  }
  if (timezone !== undefined || keep !== undefined || verify !== undefined)
    throw new Error('--timezone, --keep and --verify are of a schedule: name its times by --every');
  const query = options.wait === false ? '' : `?${waiting}`;
  if (kind === 'application') {
    const all = client.request('POST', `/api/v1/applications/${it.id}/volume-backups${query}`, destination);
    // as its endpoint answers
    return printBackups(client, (await whileServerIsAway(client, it, all)) as ApiObject[], options.wait);
  }
  const path = kind === 'database' ? `databases/${it.id}/backups` : `volumes/${it.id}/backup`;
  const asking = client.object('POST', `/api/v1/${path}${query}`, destination);
  await printBackup(client, await whileServerIsAway(client, it, asking), name, options.wait);
}

/** Prints how each of several backups ended, or how far it is. @throws Error with what each of those says that did not succeed */
export async function printBackups(
  client: Client,
  made: readonly ApiObject[],
  wait: boolean | undefined,
): Promise<void> {
  const failures: string[] = [];
  for (const one of made)
    await printBackup(client, one, one.name ?? one.id, wait).catch((error: unknown) =>
      failures.push(error instanceof Error ? error.message : String(error)),
    );
  if (failures.length > 0) throw new Error(failures.join('\n'));
}

const backedUpKinds = { databases: 'database', volumes: 'volume', applications: 'application' } as const;

/** What has that name or id. @throws Error unless one thing that can be backed up has it */
async function backedUp(client: Client, name: string, project: string | undefined) {
  const found = await Promise.all(
    (['databases', 'volumes', 'applications'] as const).map(async (kinds) => {
      const all = await listObjects(client, kinds, project);
      // the volume of a database has the name of that one, and no backups of its own
      const isOwn = (it: ApiObject): boolean => typeof it['database_id'] !== 'string';
      return all
        .filter((it) => (it.id === name || it.name === name) && isOwn(it))
        .map((it) => ({ kind: backedUpKinds[kinds], it }));
    }),
  );
  const [first, second] = found.flat();
  if (first === undefined) throw new Error(`No database, volume or application is called ${name}`);
  if (second === undefined) return first;
  const each = found.flat().map(({ kind, it }) => `${it.id} (${kind})`);
  throw new Error(`Several are called ${name}: name one by its id, ${each.join(' or ')}`);
}

/** Takes up the backups that the bucket of a destination has into a project, and prints them. */
async function importBackups(client: Client, destination: string, options: Options): Promise<void> {
  const { id } = await findObject(client, 'backup-destinations', destination);
  const place = await placeOf(client, 'backup', options);
  let [taken, known, after]: [number, number, string | null] = [0, 0, null];
  do {
    const body = { ...place, ...(after !== null && { after }) };
    const page = Imported.parse(
      await client.request('POST', `/api/v1/settings/backup-destinations/${id}/import`, body),
    );
    for (const one of page.imported) console.log(`backup ${one.id} of ${one.name ?? ''} is taken up`);
    for (const one of page.skipped) console.error(`${one.manifest_key} is left out: ${whySkipped(one.reason)}`);
    taken += page.imported.length;
    known += page.known;
    after = page.next;
  } while (after !== null);
  console.log(`${taken} ${taken === 1 ? 'backup is' : 'backups are'} new here, ${known} known: setpoint get backups`);
}

function whySkipped(reason: string): string {
  switch (reason) {
    case 'not_readable':
      return 'it describes no dump and no snapshot';
    case 'too_many':
      return 'there are as many of the same as there can be';
    case 'of_another_project':
      return 'what it is of lives here, in another project: take it up there';
    default:
      return 'its engine has no backups';
  }
}

/** Prints how a backup ended, or, without `wait`, how far it is. @throws Error if it failed */
export async function printBackup(
  client: Client,
  asked: ApiObject,
  name: string,
  wait: boolean | undefined,
): Promise<void> {
  const made = wait === false ? asked : await untilEnded(client, 'backups', asked);
  const error = made['error'] as { message: string } | null; // of the schema Backup
  switch (made.status) {
    case 'completed':
      console.log(`backup ${made.id} of ${name} is completed: ${bytes(made['size_bytes'] as number)} in its bucket`);
      return;
    case 'failed':
      throw new Error(`The backup of ${name} failed: ${error?.message ?? 'the reason is not known'}`);
    default:
      printOpen(
        `backup ${made.id} of ${name} is ${made.status ?? 'requested'}: setpoint describe backup ${made.id}`,
        wait,
      );
  }
}
