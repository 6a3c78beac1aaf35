import { z } from 'zod';
import { defineKind } from './define.ts';
import { Id, Name } from './fields.ts';

export const VolumePhase = z.enum(['pending', 'available', 'bound', 'error', 'deleting']);
export type VolumePhase = z.infer<typeof VolumePhase>;

/** What a volume begins as a copy of. */
export const CopyFrom = z.object({
  /** Name of a volume at the engine of the same server that no agent made. */
  docker_volume: z.string().min(1).max(255),
  /** Containers that mounted it when the volume was created, for messages. */
  containers: z.array(z.string().min(1).max(255)).max(100),
});
export type CopyFrom = z.infer<typeof CopyFrom>;

/** A folder of a server whose content outlives the containers that mount it. An application names those that it mounts. */
export const volume = defineKind({
  kind: 'volume',
  version: 1,
  desired: z.object({ project_id: Id, environment_id: Id, server_id: Id, name: Name, copy_from: CopyFrom.optional() }),
  observed: z.object({
    phase: VolumePhase,
    /** It has all that it was to be a copy of: no instance that mounts it is made before. */
    copied: z.literal(true).optional(),
  }),
  unique: (d) => [{ scope: d.environment_id, name: d.name }],
  owners: (d) => [{ kind: 'environment', id: d.environment_id, blocks: true }],
  populates: { environment: 'environment', server: 'server', project: 'project' },
  indexes: { project: (d) => d.project_id, environment: (d) => d.environment_id, server: (d) => d.server_id },
  /** The copy is a new volume, which is empty. */
  clone: {
    references: ['environment_id', 'server_id'],
    reset: (draft) => {
      delete draft.copy_from;
    },
  },
  finalizers: ['volume'],
  keep: { untilDeleted: 'A user deletes it, or it goes with its environment' },
});

/** Name of a volume at the engine of its server. It has the id, never a text of a user. */
export function volumeName(id: string): string {
  return `sp-vol-${id}`;
}
