import { list } from '../../api.ts';
import type { Login } from '../../api.ts';
import { useList } from '../../frame/context.ts';
import type { Collection, Reading } from '../../frame/collections.ts';
import type { ObjectOf } from '../../model.ts';

type Backup = ObjectOf<'backup'>;

const newestBackups = 500;

/** The newest backups of a database or a volume. */
function backupsOf(kind: Backup['kind'], id: string): Collection<'backup'> {
  const read = (login: Login): Promise<Backup[]> =>
    kind === 'database'
      ? list(login, '/api/v1/databases/{id}/backups', newestBackups, { path: { id } })
      : list(login, '/api/v1/volumes/{id}/backups', newestBackups, { path: { id } });
  return {
    name: `backup of ${id}`,
    read: async (login) => ({
      kind: 'backup',
      objects: await read(login),
      covers: (one) => one.resource_id === id,
    }),
  };
}

/** The backups of a database or a volume, the newest first, kept up to date. */
export function useBackupsOf(
  kind: Backup['kind'],
  id: string,
): { readonly backups: readonly Backup[]; readonly reading: Reading } {
  const { objects, reading } = useList(backupsOf(kind, id), 'backup');
  return { backups: newestFirst(objects.filter((one) => one.resource_id === id)), reading };
}

export function newestFirst<T extends { readonly requested_at: string }>(objects: readonly T[]): T[] {
  return objects.toSorted((a, b) => Date.parse(b.requested_at) - Date.parse(a.requested_at));
}
