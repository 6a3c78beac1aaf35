import type { ContainerDetail, MountDetail } from './runtime.ts';

/** The volumes that a container has because its image asks for them (VOLUME): they go with the container. */
export function anonymousVolumes({ mounts }: Pick<ContainerDetail, 'mounts'>): MountDetail[] {
  return mounts.filter(({ type, source }) => type === 'volume' && /^[0-9a-f]{64}$/.test(source));
}
