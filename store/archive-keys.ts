import type { ReadonlyResource } from './resource.ts';

type Archive = ReadonlyResource<'wal_archive'>;

/** The folder of keys of an archive and of its base backups, without the prefix of its destination. It is made of ids alone. */
export function archiveFolder(tenant: string, projectId: string, databaseId: string, archiveId: string): string {
  return `${tenant}/${projectId}/${databaseId}/pitr/${archiveId}`;
}

function folderOf({ meta, desired }: Archive): string {
  return archiveFolder(meta.tenant, desired.project_id, desired.database_id, meta.id);
}

/** The folder of all segments. */
export function logFolder(archive: Archive): string {
  return `${folderOf(archive)}/wal`;
}

/** The key of a file that PostgreSQL archived, by its name. */
export function logKey(archive: Archive, file: string): string {
  return `${logFolder(archive)}/${file.slice(0, 8)}/${file}.zst`;
}

/** The name of the file that a key is of; `undefined`: it is of none. */
export function fileOfKey(archive: Archive, key: string): string | undefined {
  const folder = `${logFolder(archive)}/`;
  if (!key.startsWith(folder) || !key.endsWith('.zst')) return undefined;
  return key.slice(key.lastIndexOf('/') + 1, -'.zst'.length);
}

/** What says, beside the segments, which cluster they are of. */
export function archiveManifestKey(archive: Archive): string {
  return `${folderOf(archive)}/manifest.json`;
}
