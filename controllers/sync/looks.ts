/** A commit whose files cannot be read. */
export interface Unread {
  commit: string;
  message: string;
  /** Until then they are not asked for again. */
  until: number;
}

/** When what waits is tried again, without a look at the branch. */
export interface Retry {
  at: number;
  /** The pause before it, in milliseconds. */
  afterMs: number;
}

/**
 * When the branch of a sync is looked at next, and of which generation it was looked at. In the memory of the leader; times are
 * those of its monotonic clock.
 */
export interface Look {
  generation: number;
  /** The newest delivery of a webhook that announced its branch. */
  announced: number;
  dueAt: number;
  comparedAt: number;
  /** Absent: nothing waits. */
  retry?: Retry | undefined;
  unread?: Unread | undefined;
}

/** Whether the branch is to be looked at now: its time has come, the sync was changed, or a webhook announced it. Pure. */
export function isDue(look: Look | undefined, of: { generation: number; announced: number; now: number }): boolean {
  if (look === undefined) return true;
  return look.generation !== of.generation || look.announced < of.announced || look.dueAt <= of.now;
}

/** The next try of what still waits: each pause is twice the one before. A try before its time moves nothing. Pure. */
export function retryOf(
  before: Retry | undefined,
  { firstMs, mostMs, now }: { firstMs: number; mostMs: number; now: number },
): Retry {
  if (before !== undefined && before.at > now) return before;
  const afterMs = Math.min(before === undefined ? firstMs : 2 * before.afterMs, mostMs);
  return { at: now + afterMs, afterMs };
}

/** Milliseconds until the sync is looked after again. Pure. */
export function pauseOf({ dueAt, retry }: Look, now: number): number {
  return Math.min(dueAt, retry?.at ?? dueAt) - now;
}
