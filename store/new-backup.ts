import { defined } from './defined.ts';
import type { DesiredOf } from './kinds/kinds.ts';
import type { ReadonlyResource } from './resource.ts';

/** What can be backed up. */
export type BackedUp =
  | { kind: 'database'; it: ReadonlyResource<'database'> }
  | { kind: 'volume'; it: ReadonlyResource<'volume'> };

/** A backup as it is asked for at an instant. What it says of its database or its volume does not change any more. */
export function newBackup(
  of: BackedUp,
  destination: ReadonlyResource<'backup_destination'>,
  now: Date,
): DesiredOf<'backup'> {
  const { desired } = of.it;
  return {
    project_id: desired.project_id,
    place: { environment_id: desired.environment_id, server_id: desired.server_id },
    of: ofOf(of),
    method: of.kind === 'database' ? 'logical' : 'snapshot',
    destination_id: destination.meta.id,
    name: desired.name,
    requested_at: now.toISOString(),
    cancel_requested: false,
    pinned: false,
  };
}

function ofOf(of: BackedUp): DesiredOf<'backup'>['of'] {
  const { id } = of.it.meta;
  if (of.kind === 'volume') return { kind: 'volume', id };
  const { type, version, image, database_user, database_name, ...desired } = of.it.desired;
  const { memory_limit, cpu_limit, parameters, connection_pooling, require_tls } = desired;
  return {
    kind: 'database',
    id,
    engine: { type, version, ...(image !== undefined && { image }) },
    credentials: { database_user, database_name },
    settings: defined({
      memory_limit,
      cpu_limit,
      parameters: parameters && { ...parameters },
      connection_pooling,
      require_tls,
    }),
  };
}

/** Most backups that one transaction makes, which takes three operations for each and a few more. */
const mostAtOnce = 15;

/** What is to be backed up, in parts of which each is one transaction: an application may mount more volumes. */
export function inParts<T>(all: readonly T[]): T[][] {
  const parts = Math.ceil(all.length / mostAtOnce);
  return Array.from({ length: parts }, (_, at) => all.slice(at * mostAtOnce, (at + 1) * mostAtOnce));
}
