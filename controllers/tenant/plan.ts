import { isKindName, kinds } from '../../store/kinds/kinds.ts';
import type { KindName } from '../../store/kinds/kinds.ts';
import type { TenantView } from '../../store/mirror.ts';
import { isDeleting, isKind } from '../../store/resource.ts';
import type { ReadonlyResource } from '../../store/resource.ts';

type Server = ReadonlyResource<'server'>;
type Destination = ReadonlyResource<'backup_destination'>;

/** What of a tenant is taken for lost once its deletion has lasted so long. */
export interface Overdue {
  agents: boolean;
  buckets: boolean;
}

export interface Plan {
  /** Objects whose deletion is to be requested now. */
  request: ReadonlyResource[];
  /** Destinations among them whose bucket still has something of the tenant, which stays there in these folders of it. */
  givenUp: { destination: Destination; folders: string[] }[];
  /** Objects that are left in all. */
  left: number;
}

/** What has objects in buckets, and what is needed to remove these: where and as whom buckets are asked, and which may be. */
const inBuckets: readonly KindName[] = ['backup', 'wal_archive'];
const ofBuckets: readonly KindName[] = ['backup_destination', 'settings'];

const allKinds = Object.keys(kinds) as KindName[]; // the keys of `kinds` are the names

/**
 * The next step of the deletion of a tenant. The deletion of objects without a blocking owner is requested; what they
 * own follows. A server is deleted last, so that its agent learns what to remove and can report it. A server whose
 * agent is away is deleted at once, since everything on it would wait for that agent. The destinations of backups go
 * after the backups, and no server waits for these. Pure.
 */
export function plan(view: TenantView, overdue: Overdue): Plan {
  const request: ReadonlyResource[] = [];
  const hasBackups = inBuckets.some((kind) => view.list(kind).length > 0);
  const servers: Server[] = [];
  let left = 0;
  let others = 0;
  for (const kind of allKinds) {
    for (const it of view.list(kind)) {
      left++;
      if (isKind(it, 'server')) servers.push(it);
      else if (!isOfServer(it) && !inBuckets.includes(kind) && !ofBuckets.includes(kind)) others++;
      if (kind === 'server' || isDeleting(it) || isOwned(it)) continue;
      if (!hasBackups || overdue.buckets || !ofBuckets.includes(kind)) request.push(it);
    }
  }
  for (const server of servers) {
    if (isDeleting(server)) continue;
    if (others === 0 || isAway(server) || overdue.agents) request.push(server);
  }
  const givenUp = request
    .filter((it) => isKind(it, 'backup_destination'))
    .map((destination) => ({ destination, folders: foldersAt(destination, view) }))
    .filter(({ folders }) => folders.length > 0);
  return { request, givenUp, left };
}

/** Folders of the bucket of a destination that have something of the tenant; none where nothing is left there. */
function foldersAt({ meta: { id, tenant } }: Destination, view: TenantView): string[] {
  const backups = view.by('backup', 'destination', id);
  const archives = view.by('wal_archive', 'destination', id);
  const own = backups.some(({ desired }) => desired.found === undefined) || archives.length > 0 ? [`${tenant}/`] : [];
  // taken up from another installation
  const found = backups.flatMap(({ desired }) => (desired.found === undefined ? [] : [`${desired.found.folder}/`]));
  return [...own, ...found];
}

function isOwned({ meta }: ReadonlyResource): boolean {
  return meta.owners.some(({ blocks, kind }) => blocks && isKindName(kind));
}

function isOfServer({ meta }: ReadonlyResource): boolean {
  return meta.owners.some(({ blocks, kind }) => blocks && kind === 'server');
}

function isAway({ desired, observed }: Server): boolean {
  return desired.agent_public_key === undefined || observed?.phase === 'offline';
}
