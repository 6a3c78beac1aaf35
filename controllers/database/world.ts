import { mainService } from '../../agent-protocol/workload.ts';
import { poolerService } from '../../store/kinds/internal-id.ts';
import type { TenantView } from '../../store/mirror.ts';
import { isStaying } from '../../store/resource.ts';
import type { ReadonlyResource } from '../../store/resource.ts';
import { isService } from '../rollout/slots.ts';
import type { Assignment } from '../rollout/slots.ts';
import { isPoolerUsed } from './pooler-users.ts';

export type Database = ReadonlyResource<'database'>;

/** Everything that the plan and the phase of a database follow from. */
export interface World {
  database: Database;
  /** Also absent while it is being deleted: nothing new is assigned to it then. */
  server: ReadonlyResource<'server'> | undefined;
  /** Its volumes; the one that its data is in is among them unless it was lost from the store. */
  volumes: readonly ReadonlyResource<'volume'>[];
  /** Its instances: one per volume that its data is or was in. */
  slots: readonly Assignment[];
  /** Instances of what its clients share connections by. */
  poolers: readonly Assignment[];
  /** What runs has the address of its pooler, though connections are not pooled any more: that goes on for so long. */
  isPoolerUsed: boolean;
  /** In place of the usual one; absent: that. */
  poolerImage: string | undefined;
  /** Where its writes are archived; absent: they are not, or that has not begun. */
  archive: ReadonlyResource<'wal_archive'> | undefined;
  /** It has not been ready for longer than it may take. */
  unreadyTooLong: boolean;
}

export function readWorld(database: Database, view: TenantView): Omit<World, 'unreadyTooLong' | 'poolerImage'> {
  const { meta, desired } = database;
  const server = view.get('server', desired.server_id);
  const instances = view.by('assignment', 'workload', meta.id).filter(isService);
  const poolers = instances.filter((it) => it.desired.service === poolerService);
  const isLeftPooler = poolers.length > 0 && desired.connection_pooling !== true && isStaying(database);
  return {
    database,
    server: isStaying(server) ? server : undefined,
    volumes: view.by('volume', 'database', meta.id),
    slots: instances.filter(isMain),
    poolers,
    isPoolerUsed: isLeftPooler && isPoolerUsed(database, view),
    archive: desired.archive && view.get('wal_archive', desired.archive.id),
  };
}

/** The instance that serves a database; absent while there is none. */
export function servingInstance({ meta, desired }: Database, view: TenantView): Assignment | undefined {
  return view
    .by('assignment', 'workload', meta.id)
    .filter(isService)
    .filter(isMain)
    .find((it) => it.desired.version === desired.data_volume_id);
}

/** It is no instance beside the one that serves, such as that of a restore. */
function isMain({ desired }: Assignment): boolean {
  return desired.service === mainService;
}

/** The volume that its data is in. */
export function dataVolume({ database, volumes }: Pick<World, 'database' | 'volumes'>) {
  return volumes.find(({ meta }) => meta.id === database.desired.data_volume_id);
}

/** The digest of the image that it was first started with: another image of the same tag is no restart's to bring. */
export function pinnedDigest({ database: { desired, observed }, slots }: Pick<World, 'database' | 'slots'>) {
  const own = slots.find((it) => it.desired.version === desired.data_volume_id);
  return observed?.image_digest ?? own?.observed?.image_digest;
}
