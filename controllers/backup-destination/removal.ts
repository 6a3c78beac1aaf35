import type { ReadonlyResource } from '../../store/resource.ts';
import type { Context } from '../runtime/controller.ts';

/** For how long a bucket may hold up the deletion of what it has objects of, in milliseconds. */
export const removalPatience = {
  deletionMs: 7 * 24 * 60 * 60_000,
  /** By one leader, however long ago the deletion was requested: its task, or the control plane, may have been away meanwhile. */
  triedMs: 60 * 60_000,
} as const;

/**
 * Whether the removal of the objects is tried no more, once it was tried and failed: they stay in the bucket, and the log
 * of the control plane has their keys.
 *
 * @param keys without the prefix of the destination; that of a folder ends with `/`
 */
export function isRemovalGivenUp(
  it: ReadonlyResource,
  destination: ReadonlyResource<'backup_destination'> | undefined,
  keys: readonly string[],
  ctx: Context,
): boolean {
  const triedMs = ctx.since('removal', true);
  const lastedMs = ctx.clock.now().getTime() - Date.parse(it.meta.deletionRequestedAt ?? '');
  if (lastedMs <= removalPatience.deletionMs || triedMs < removalPatience.triedMs) return false;
  const { bucket, path_prefix } = destination?.desired ?? {};
  ctx.log.warn(
    { bucket, path_prefix, objects: keys },
    'A bucket did not let objects of what was deleted be removed for a week: they stay there until they are removed by hand',
  );
  return true;
}
