import { objectsIn } from '../../store/objects-in.ts';
import { isDeleting } from '../../store/resource.ts';
import type { ReadonlyResource } from '../../store/resource.ts';
import type { Unit } from '../../store/unit-of-work.ts';
import type { RequestContext } from '../endpoint/context.ts';
import { conflicting } from '../ground/api-error.ts';
import { requireOwnVolume } from './backing-up.ts';
import { holdPopulation, inWords } from './population.ts';

/** @throws ApiError CONFLICT if the application mounts another volume there, below it, or above it. */
export function requireFreePath({ desired }: ReadonlyResource<'application'>, path: string): void {
  const other = desired.mounts.find(
    (mount) => `${mount.path}/`.startsWith(`${path}/`) || `${path}/`.startsWith(`${mount.path}/`),
  );
  if (other !== undefined)
    throw conflicting(
      `The application mounts another volume at ${other.path}: unbind that one first, or choose another path`,
    );
}

/** Requires that an application may mount a volume, and guards that nothing else does by then. @throws ApiError CONFLICT */
export async function requireMountable(
  ctx: Pick<RequestContext, 'view' | 'fresh'>,
  unit: Unit,
  volume: ReadonlyResource<'volume'>,
  application: ReadonlyResource<'application'>,
  { path, readOnly }: { path: string; readOnly: boolean },
): Promise<void> {
  const { view } = ctx;
  requireOwnVolume(view, volume);
  if (application.desired.server_id !== volume.desired.server_id)
    throw conflicting('The volume is on another server than the application: bind a volume of that server');
  if (application.desired.source.type === 'compose')
    throw conflicting('The services of a compose file mount the volumes that it declares: write the volume there');
  const isNew = volume.meta.desiredRevision === 0;
  if (!isNew) await holdPopulation(ctx, unit, volume);
  const users = view.by('application', 'volume', volume.meta.id);
  if (users.length > 0) throw conflicting(`The volume is mounted already (${inWords(users)}): unbind it first`);
  requireFreePath(application, path);
  if (!readOnly && application.desired.replicas > 1)
    throw conflicting(
      'The application has several instances, and one may write to a volume: scale it to 1, or bind read_only',
    );
  unit.require(volume);
}

/** What still mounts a volume and is not being deleted, and what is. */
export function usersOfVolume(
  { view }: Pick<RequestContext, 'view'>,
  { meta }: ReadonlyResource<'volume'>,
): { staying: readonly ReadonlyResource[]; leaving: readonly ReadonlyResource[] } {
  const users = objectsIn(view, 'volume', meta.id);
  return { staying: users.filter((it) => !isDeleting(it)), leaving: users.filter(isDeleting) };
}
