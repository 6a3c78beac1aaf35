import type { VolumeMount } from '../../agent-protocol/workload.ts';
import type { DeepReadonly } from '../../store/deep-readonly.ts';
import type { DesiredOf } from '../../store/kinds/kinds.ts';
import { dataName, volumeName } from '../../store/kinds/volume.ts';
import type { TenantView } from '../../store/mirror.ts';
import type { ReadonlyResource } from '../../store/resource.ts';

/** The volumes that an application mounts. */
export function mountedBy(
  app: ReadonlyResource<'application'> | undefined,
  view: Pick<TenantView, 'get'>,
): ReadonlyResource<'volume'>[] {
  return (app?.desired.mounts ?? []).flatMap(({ volume_id }) => view.get('volume', volume_id) ?? []);
}

/** The volume among these that is not yet the copy that it is to begin as, with what holds that up. */
export interface Uncopied {
  name: string;
  /** What its condition says, without how far it is. */
  why: string;
  /** It is made without failure, or waits for its user: however long that takes, it is no fault of what mounts it. */
  isWaiting: boolean;
}

/** The first of these volumes that is not yet the copy that it is to begin as. */
export function uncopied(mounted: readonly ReadonlyResource<'volume'>[]): Uncopied | undefined {
  const it = mounted.find(({ desired, observed }) => desired.copy_from !== undefined && observed?.copied !== true);
  if (it === undefined) return undefined;
  const ready = it.observed?.conditions.find(({ type }) => type === 'Ready');
  const isCopying = ready === undefined || ready.reason === 'Copying';
  const why = isCopying ? `Docker volume ${it.desired.copy_from?.docker_volume ?? ''} is being copied` : ready.message;
  return { name: it.desired.name, why, isWaiting: it.observed?.phase !== 'error' };
}

/** What of a volume changes {@link uncopied}. */
export function uncopiedPart({ desired, observed }: ReadonlyResource<'volume'>): unknown {
  if (desired.copy_from === undefined || observed?.copied === true) return [];
  const ready = observed?.conditions.find(({ type }) => type === 'Ready');
  return [observed?.phase, ready?.reason, ready?.reason === 'Copying' ? '' : ready?.message];
}

/** The message of an agent with the names that users gave to volumes in place of those that the engine knows. */
export function withVolumeNames(message: string, mounted: readonly ReadonlyResource<'volume'>[]): string {
  return mounted.reduce((text, it) => text.replaceAll(dataName(it), () => it.desired.name), message);
}

/** The volumes of an application or a function in the form of a mount. */
export function mountsOf({
  desired,
}: {
  readonly desired: DeepReadonly<Pick<DesiredOf<'application'>, 'mounts'>>;
}): VolumeMount[] {
  return desired.mounts.map(({ volume_id, data_id: data = volume_id, path, read_only }) => ({
    type: 'volume',
    volume: volumeName(data),
    path,
    read_only,
    copy: true,
  }));
}
