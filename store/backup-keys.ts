import { archiveFolder } from './archive-keys.ts';
import { manifestName } from './backup-manifest.ts';
import type { ReadonlyResource } from './resource.ts';

/**
 * The keys of the objects of one backup, without the prefix of its destination. They are made of ids alone: those of another
 * installation, if that made it.
 */
export function backupKeys({ meta, desired }: ReadonlyResource<'backup'>): { object: string; manifest: string } {
  if (desired.archive_id !== undefined) {
    const base = `${archiveFolder(meta.tenant, desired.project_id, desired.of.id, desired.archive_id)}/base/${meta.id}`;
    return { object: `${base}/base.tar.zst`, manifest: `${base}/${manifestName}` };
  }
  const folder = desired.found?.folder ?? `${meta.tenant}/${desired.project_id}/${desired.of.id}/backups/${meta.id}`;
  const file = desired.of.kind === 'database' ? 'dump.zst' : 'files.tar.zst';
  return { object: `${folder}/${file}`, manifest: `${folder}/${manifestName}` };
}
