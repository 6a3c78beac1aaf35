import { access } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { z } from 'zod';
import { storeFile } from '../../store/open.ts';
import { backUpFile, restoreFile } from '../../store/sqlite/copy-file.ts';
import { clusterRequest } from '../cluster-request.ts';
import { embeddedStore, ensureDataDir } from '../data-dir.ts';

const Place = z.object({ data: z.object({ file: z.string().nullable() }) });

/** Copies the store that the server of this machine uses. @throws Error if it is in etcd, or the file exists. */
export async function backUpStore(dataDir: string, file: string): Promise<void> {
  const { data } = Place.parse(await clusterRequest(dataDir, 'GET', '/store'));
  if (data.file === null)
    throw new Error('The store is in etcd, which has its own backups: etcdctl snapshot save FILE');
  const bytes = await backUpFile(data.file, resolve(file));
  console.log(`Wrote ${file}: ${(bytes / 1e6).toFixed(1)} MB`);
  console.log(`Its secrets open only with ${join(dataDir, 'keys.json')}: keep a copy of that in another place`);
}

/** Puts a copy in the place of the store. @throws Error if its server runs, or the copy is not whole. */
export async function restoreStore(options: { data: string; store?: string }, file: string): Promise<void> {
  const place = storeFile(options.store ?? embeddedStore(options.data));
  if (place === undefined)
    throw new Error(`Only the embedded store is restored by this command: ${options.store} has backups of its own`);
  await ensureDataDir(options.data);
  const former = await restoreFile(resolve(file), place, new Date());
  console.log(`${place} is now ${file}`);
  if (former !== undefined) console.log(`The former store is ${former}: remove it once it is not needed`);
  const keyFile = join(options.data, 'keys.json');
  const hasKeys = await access(keyFile).then(
    () => true,
    () => false,
  );
  if (!hasKeys) console.log(`Put the keys.json that belongs to it at ${keyFile} before the server starts`);
}
