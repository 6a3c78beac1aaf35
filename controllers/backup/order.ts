import type { ReadonlyResource } from '../../store/resource.ts';

/** Clocks of replicas may differ by so much. In milliseconds. */
const apartMs = 10 * 60_000;

/** Whether an instant, in ISO 8601, can only be of a clock that was ahead: nothing is to wait until it has come. */
export function isAhead(instant: string, now: Date): boolean {
  return Date.parse(instant) > now.getTime() + apartMs;
}

type Requested = Pick<ReadonlyResource<'backup'>, 'meta' | 'desired'>;

/**
 * Backups in the order in which they were requested, the oldest first: in that of the store, as a clock that was ahead gives
 * a time that those after it have not reached. One that another installation made has its time alone: it comes among the
 * others as if none of them was requested after a later one, or after `now`. Pure.
 */
export function oldestFirst<B extends Requested>(backups: readonly B[], now: Date): B[] {
  let next = now.getTime();
  const newestFirst = backups.toSorted(byStore).reverse();
  const placed = newestFirst.map((it) => {
    const requested = Date.parse(it.desired.requested_at);
    if (it.desired.found !== undefined) return { it, at: Math.min(requested, now.getTime()) };
    next = Math.min(requested, next);
    return { it, at: next };
  });
  return placed
    .reverse()
    .toSorted((a, b) => a.at - b.at)
    .map(({ it }) => it);
}

function byStore(a: Requested, b: Requested): number {
  return revisionOf(a) - revisionOf(b) || Date.parse(a.desired.requested_at) - Date.parse(b.desired.requested_at);
}

/** The place of an object in the order of the store. */
export function revisionOf({ meta }: Pick<ReadonlyResource, 'meta'>): number {
  return meta.createdRevision ?? meta.desiredRevision;
}
