import type { Logger } from 'pino';
import { retentionClock } from '../../agent-protocol/retention-clock.ts';
import { kinds, type KindName } from '../../store/kinds/kinds.ts';
import type { Mirror } from '../../store/mirror.ts';
import type { Clock } from '../../time/clock.ts';
import { limits } from './limits.ts';

const allKinds = Object.keys(kinds) as KindName[]; // the keys of `kinds` are the names

/**
 * The time by which objects expire, in milliseconds since 1970: the retention clock of this replica, from the newest
 * time that is stored when this is called. What a wall clock that is ahead would remove at once does not come back.
 */
export function expiryTime({ mirror, clock, log }: { mirror: Mirror; clock: Clock; log: Logger }): () => number {
  const newest = newestTime(mirror);
  const aheadMs = newest === undefined ? 0 : clock.now().getTime() - newest;
  if (aheadMs > limits.garbage.aheadMs)
    log.warn(
      { newest: new Date(clock.now().getTime() - aheadMs).toISOString(), aheadMs },
      'The clock of this machine is far ahead of all that is stored: set it if it is wrong. What expires is removed later, at twice the pace of time',
    );
  return retentionClock(clock, newest);
}

/** The newest time at which an object was written or a condition of one changed; `undefined`: there are no objects. */
function newestTime(mirror: Mirror): number | undefined {
  let newest = ''; // all times have the form of `toISOString`, which sorts as time does
  for (const tenant of mirror.tenants()) {
    const view = mirror.tenant(tenant);
    for (const kind of allKinds)
      for (const { meta, observed } of view.list(kind)) {
        if (meta.updatedAt > newest) newest = meta.updatedAt;
        for (const { changedAt } of observed?.conditions ?? []) if (changedAt > newest) newest = changedAt;
      }
  }
  const time = Date.parse(newest);
  return Number.isNaN(time) ? undefined : time;
}
