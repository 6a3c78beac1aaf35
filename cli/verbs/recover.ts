import { z } from 'zod';
import { confirm } from '../ask.ts';
import type { ApiObject, Client } from '../client.ts';
import { findObject, pathOf } from '../objects.ts';
import { whileServerIsAway } from '../server-away.ts';
import { waiting } from '../settled.ts';
import { printOpen, untilEnded } from '../until-ended.ts';

interface Options {
  project?: string;
  wait?: boolean;
  yes?: boolean;
}

const RecoveryWindow = z.object({
  available: z.boolean(),
  last_wal_at: z.string().nullable(),
  windows: z.array(z.object({ earliest_time: z.string(), latest_time: z.string() })),
});

/**
 * Brings a copy of a database to an instant: beside what it serves, or, with `as`, as a new database.
 *
 * @throws Error if that failed, with the reason
 */
export async function pitr(
  client: Client,
  name: string,
  { to, as, ...options }: Options & { to?: string; as?: string },
): Promise<void> {
  if (to === undefined) throw new Error('Say which instant is wanted: --to 2026-11-27T01:30:00Z');
  const database = await findObject(client, 'databases', name, options.project);
  const query = options.wait === false ? '' : `?${waiting}`;
  const path = pathOf('databases', database);
  const asking =
    as === undefined
      ? client.object('POST', `${path}/pitr${query}`, { target_time: to })
      : client.object('POST', `${path}/pitr-clone${query}`, { target_time: to, new_name: as });
  const asked = await whileServerIsAway(client, database, asking);
  const made = options.wait === false ? asked : await untilEnded(client, 'restores', asked);
  switch (made.status) {
    case 'ready_to_switch':
      console.log(`restore ${made.id} has ${name} as of ${to}, at ${String(made['internal_host'])} in its environment`);
      console.log(`setpoint switch ${name} lets it serve that; POST /restores/${made.id}/cancel throws it away`);
      return;
    case 'completed':
      console.log(`restore ${made.id} is completed: database ${as ?? name} serves ${name} as of ${to}`);
      return;
    case 'failed':
      throw new Error(`The recovery of ${name} failed: ${reasonOf(made)}`);
    default:
      printOpen(
        `restore ${made.id} of ${name} is ${made.status ?? 'requested'}: setpoint describe restore ${made.id}`,
        options.wait,
      );
  }
}

/** Lets a database serve what was recovered for it, or, with `back`, a former volume of it. Asks before it does. */
export async function switchTo(
  client: Client,
  name: string,
  { back, ...options }: Options & { back?: string },
): Promise<void> {
  const database = await findObject(client, 'databases', name, options.project);
  const what = back === undefined ? 'what was recovered' : `its former volume ${back}`;
  if (options.yes !== true)
    await confirm(`Let database ${name} serve ${what}? What it serves now stays in a volume for a week.`);
  const body = back === undefined ? {} : { volume_id: back };
  const asking = client.object('POST', `${pathOf('databases', database)}/switch`, body);
  await whileServerIsAway(client, database, asking);
  console.log(`database ${name} changes to ${what}: setpoint describe database ${name}`);
}

/** Prints the instants that a database can be brought to. */
export async function printWindow(client: Client, path: string, name: string): Promise<void> {
  const {
    available,
    windows,
    last_wal_at: last,
  } = RecoveryWindow.parse(await client.request('GET', `${path}/recovery-window`));
  if (!available) {
    console.log(`${name} cannot be brought to any instant: setpoint describe database ${name} says why`);
    return;
  }
  for (const { earliest_time: earliest, latest_time: latest } of windows) console.log(`${earliest} to ${latest}`);
  if (last !== null) console.log(`its bucket last took a part of its log at ${last}`);
}

function reasonOf(made: ApiObject): string {
  const error = made['error'] as { message: string } | null; // of the schema Restore
  return error?.message ?? 'the reason is not known';
}
