import { isKindName, kinds } from '../../store/kinds/kinds.ts';
import type { KindName } from '../../store/kinds/kinds.ts';
import type { TenantView } from '../../store/mirror.ts';
import { isDeleting, isKind } from '../../store/resource.ts';
import type { ReadonlyResource } from '../../store/resource.ts';

type Server = ReadonlyResource<'server'>;

export interface Plan {
  /** Objects whose deletion is to be requested now. */
  request: ReadonlyResource[];
  /** Objects that are left in all. */
  left: number;
}

const allKinds = Object.keys(kinds) as KindName[]; // the keys of `kinds` are the names

/**
 * The next step of the deletion of a tenant. The deletion of objects without a blocking owner is requested; what they
 * own follows. A server is deleted last, so that its agent learns what to remove and can report it. A server whose
 * agent is away is deleted at once, since everything on it would wait for that agent. Pure.
 */
export function plan(view: TenantView, isOverdue: (server: Server) => boolean): Plan {
  const request: ReadonlyResource[] = [];
  const servers: Server[] = [];
  let left = 0;
  let others = 0;
  for (const kind of allKinds) {
    for (const it of view.list(kind)) {
      left++;
      if (isKind(it, 'server')) servers.push(it);
      else if (!isOfServer(it)) others++;
      if (kind !== 'server' && !isDeleting(it) && !isOwned(it)) request.push(it);
    }
  }
  for (const server of servers) {
    if (isDeleting(server)) continue;
    if (others === 0 || isAway(server) || isOverdue(server)) request.push(server);
  }
  return { request, left };
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
