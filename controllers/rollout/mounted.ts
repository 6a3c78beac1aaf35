import { volumeName } from '../../store/kinds/volume.ts';
import type { TenantView } from '../../store/mirror.ts';
import type { ReadonlyResource } from '../../store/resource.ts';

/** The volumes that an application mounts. */
export function mountedBy(
  app: ReadonlyResource<'application'> | undefined,
  view: Pick<TenantView, 'get'>,
): ReadonlyResource<'volume'>[] {
  return (app?.desired.mounts ?? []).flatMap(({ volume_id }) => view.get('volume', volume_id) ?? []);
}

/** The message of an agent with the names that users gave to volumes in place of those that the engine knows. */
export function withVolumeNames(message: string, mounted: readonly ReadonlyResource<'volume'>[]): string {
  return mounted.reduce((text, { meta, desired }) => text.replaceAll(volumeName(meta.id), () => desired.name), message);
}
