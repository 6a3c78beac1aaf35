import type { DeepReadonly } from './deep-readonly.ts';
import type { DesiredOf } from './kinds/kinds.ts';
import type { ReadonlyResource } from './resource.ts';

/** Why a backup cannot be restored into a database; `undefined`: it can. The words follow "Cannot restore the backup as". */
export function misfitOf(
  { desired: { of } }: ReadonlyResource<'backup'>,
  { type, version, database_name, database_user }: DeepReadonly<DesiredOf<'database'>>,
): string | undefined {
  if (of.kind !== 'database') return 'it is of a volume';
  const { engine, credentials } = of;
  if (engine.type !== type) return `it is of ${engine.type}, and the database is of ${type}`;
  if (engine.version !== version) return `it is of version ${engine.version}, and the database has version ${version}`;
  if (credentials.database_name !== database_name || credentials.database_user !== database_user)
    return `its user ${credentials.database_user} and its database ${credentials.database_name} have other names here: restore it into a new database`;
  return undefined;
}
