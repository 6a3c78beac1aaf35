import { z } from 'zod';
import { Declarations, ofDeclarations } from './declarations.ts';
import { defineKind } from './define.ts';
import { Id, Name, Timestamp } from './fields.ts';
import { InstanceId, instanceOwner, outlivesInstance } from './instance-child.ts';

export const VolumePhase = z.enum(['pending', 'available', 'bound', 'error', 'deleting']);
export type VolumePhase = z.infer<typeof VolumePhase>;

/** Volumes that a project may have. */
export const maxVolumes = 1000;

/** What a volume begins as a copy of. */
export const CopyFrom = z.object({
  /** Name of a volume at the engine of the same server that no agent made. */
  docker_volume: z.string().min(1).max(255),
  /** Containers that mounted it when the volume was created, for messages. */
  containers: z.array(z.string().min(1).max(255)).max(100),
});
export type CopyFrom = z.infer<typeof CopyFrom>;

/**
 * A folder of a server whose content outlives the containers that mount it. An application names those that it mounts; one
 * of a database has that database.
 */
export const volume = defineKind({
  kind: 'volume',
  version: 1,
  /** Only the API acts on it. */
  ignorable: ofDeclarations,
  desired: z.object({
    project_id: Id,
    environment_id: Id,
    server_id: Id,
    template_instance_id: InstanceId,
    declarations: Declarations,
    name: Name,
    copy_from: CopyFrom.optional(),
    /** The database whose data it has: it goes with that one, and nothing else mounts it. */
    database_id: Id.optional(),
    /**
     * The volume at the engine has the name of this id; absent: of its own. A restore exchanges the data of two volumes, so
     * that no two have the same.
     */
    data_id: Id.optional(),
    /** Changes with each restore that is asked for, so that two at once find each other. */
    restore_token: z.string().optional(),
    /** Another one has its place since a restore: it is deleted then. */
    expires_at: Timestamp.optional(),
  }),
  observed: z.object({
    phase: VolumePhase,
    /** It has all that it was to be a copy of: no instance that mounts it is made before. */
    copied: z.literal(true).optional(),
  }),
  unique: (d) => (d.database_id === undefined ? [{ scope: d.environment_id, name: d.name }] : []),
  owners: (d) => [
    d.database_id === undefined
      ? { kind: 'environment', id: d.environment_id, blocks: true }
      : { kind: 'database', id: d.database_id, blocks: true },
    ...instanceOwner(d),
  ],
  populates: { environment: 'environment', server: 'server', project: 'project' },
  indexes: {
    project: (d) => d.project_id,
    environment: (d) => d.environment_id,
    template_instance: (d) => d.template_instance_id,
    server: (d) => d.server_id,
    database: (d) => d.database_id,
  },
  /** The copy is a new volume, which is empty. */
  clone: {
    references: ['environment_id', 'server_id', 'database_id'],
    reset: (draft) => {
      delete draft.copy_from;
      delete draft.data_id;
      delete draft.restore_token;
      delete draft.expires_at;
      delete draft.template_instance_id;
      delete draft.declarations;
    },
  },
  finalizers: ['volume'],
  /** One without an end stays until a user deletes it, or it goes with its environment or its database. */
  keep: {
    until: ({ desired }) => (desired.expires_at === undefined ? undefined : Date.parse(desired.expires_at)),
    usedBy: ['application', 'function', 'database'],
    ...outlivesInstance,
  },
});

/** Name at the engine of the volume that has the data of this one. */
export function dataName({
  meta,
  desired,
}: {
  meta: { readonly id: string };
  desired: { readonly data_id?: string | undefined };
}): string {
  return volumeName(desired.data_id ?? meta.id);
}

/** Name of a volume at the engine of its server. It has the id, never a text of a user. */
export function volumeName(id: string): string {
  return `sp-vol-${id}`;
}
