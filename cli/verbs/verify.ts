import type { ApiObject, Client } from '../client.ts';
import { findObject, pathOf } from '../objects.ts';
import { whileServerIsAway } from '../server-away.ts';
import { waiting } from '../settled.ts';
import { printOpen, untilEnded } from '../until-ended.ts';

interface Options {
  project?: string;
  wait?: boolean;
}

/** Restores a backup for trial, and prints whether it could be. @throws Error with the reason if it could not */
export async function verify(client: Client, name: string, options: Options): Promise<void> {
  const backup = await findObject(client, 'backups', name, options.project);
  const query = options.wait === false ? '' : `?${waiting}`;
  const asking = client.object('POST', `${pathOf('backups', backup)}/verify${query}`);
  const asked = await whileServerIsAway(client, backup, asking);
  printTrial(options.wait === false ? asked : await untilEnded(client, 'restores', asked), backup, options.wait);
}

function printTrial(made: ApiObject, { id, name }: ApiObject, wait: boolean | undefined): void {
  const error = made['error'] as { message: string } | null; // of the schema Restore
  switch (made.status) {
    case 'completed':
      console.log(`backup ${id} of ${name ?? ''} is proven: all of it was restored and read, and is removed again`);
      return;
    case 'failed':
      throw new Error(`Backup ${id} is not proven: ${error?.message ?? 'the reason is not known'}`);
    default:
      printOpen(
        `restore ${made.id}, which tries it, is ${made.status ?? 'requested'}: setpoint describe restore ${made.id}`,
        wait,
      );
  }
}
