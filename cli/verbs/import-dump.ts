import { confirm } from '../ask.ts';
import type { ApiObject, Client } from '../client.ts';
import { pathOf } from '../objects.ts';
import { whileServerIsAway } from '../server-away.ts';
import { waiting } from '../settled.ts';
import { printRestore } from './restore.ts';

interface Options {
  wait?: boolean;
  yes?: boolean;
  /** A file of this machine. */
  file?: string;
  /** An address that the server of the database fetches. */
  url?: string;
  /** A file below the folder for imports of the server. */
  path?: string;
}

/**
 * Imports a dump that was made elsewhere into a database. Asks before that serves other data.
 *
 * @throws Error if the import failed, with the reason and what the database serves
 */
export async function importDump(client: Client, it: ApiObject, options: Options): Promise<void> {
  const { file, url, path } = options;
  if ([file, url, path].filter((one) => one !== undefined).length !== 1)
    throw new Error('Say what is imported, by one of --file FILE, --url ADDRESS and --path PATH');
  if (options.yes !== true)
    await confirm(
      `Import into database ${it.name ?? it.id}? It serves what is in the dump then, and nothing else. What it has now is in its former volume for a week.`,
    );
  const query = options.wait === false ? '' : `?${waiting}`;
  const at = pathOf('databases', it);
  const asking =
    file !== undefined
      ? client.upload(`${at}/import${query}`, file)
      : path !== undefined
        ? client.object('POST', `${at}/restore-from-path${query}`, { path })
        : client.object('POST', `${at}/import${query}`, { url });
  await printRestore(client, await whileServerIsAway(client, it, asking), { isNew: false, wait: options.wait });
}
