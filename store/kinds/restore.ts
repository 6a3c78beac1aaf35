import { z } from 'zod';
import { retention } from '../retention.ts';
import { defineKind } from './define.ts';
import { Id, Name, Sealed, Timestamp } from './fields.ts';

/**
 * `preparing`: a new volume and an instance beside the one that serves are made. `restoring`: the backup is read into it.
 * `verifying`: the instance recovers to the wanted time, and is checked. `ready_to_switch`: it has what is wanted, and somebody
 * decides whether the database serves it. `switching`: the database serves from the new volume next.
 */
const RestorePhase = z.enum([
  'pending',
  'preparing',
  'restoring',
  'verifying',
  'ready_to_switch',
  'switching',
  'completed',
  'failed',
]);
export type RestorePhase = z.infer<typeof RestorePhase>;

/** Whether nothing is done any more for a restore in this phase; `undefined`: it was not observed yet. */
export function hasRestoreEnded(phase: RestorePhase | undefined): boolean {
  return phase === 'completed' || phase === 'failed';
}

/** A dump of a user: one that was sent to the server, a file that is there, or one that it fetches. */
const RestoreSource = z.discriminatedUnion('by', [
  z.object({ by: z.literal('upload'), id: Id, size_bytes: z.number().min(0) }),
  z.object({ by: z.literal('path'), path: z.string(), size_bytes: z.number().min(0) }),
  /** `shown`: without what comes after the path, which may be a secret. */
  z.object({ by: z.literal('url'), address: Sealed, shown: z.string() }),
]);
export type RestoreSource = z.infer<typeof RestoreSource>;

/** Brings a backup, or a dump of a user, into a new volume, which takes the place of the former one once it was checked. */
export const restore = defineKind({
  kind: 'restore',
  version: 1,
  desired: z.object({
    project_id: Id,
    /** Where it is done. */
    place: z.object({ environment_id: Id, server_id: Id }),
    /** Absent: it is of another source. */
    backup_id: Id.optional(),
    source: RestoreSource.optional(),
    /** Whose data it becomes. */
    of: z.object({ kind: z.enum(['database', 'volume']), id: Id }),
    /** The new volume of the first attempt, which is made with the restore. */
    volume_id: Id,
    /** The name of what it is of, for lists. */
    name: Name,
    /** What it is of was made for this restore. A database starts with what is restored, and its own empty volume goes. */
    is_new: z.boolean().default(false),
    /** It brings data into a copy of this clone of an environment, which tells of what fails. */
    clone_id: Id.optional(),
    /** It is a drill: what was restored is thrown away once all of it was read. */
    is_drill: z.literal(true).optional(),
    /** What mounts the volume that was made for this restore, once it has all. */
    bind: z
      .object({
        /** Of the workload. An earlier release finds no application of the id of a function, and leaves the volume unmounted. */
        application_id: Id,
        /** Absent: an application. */
        workload_kind: z.literal('function').optional(),
        path: z.string(),
        read_only: z.boolean(),
      })
      .optional(),
    /** The backup is a physical one, and is brought to an instant by these segments of an archive. */
    recovery: z
      .object({
        archive_id: Id,
        target_time: Timestamp,
        first_segment: z.string(),
        last_segment: z.string(),
        /** The database serves it only when somebody says so. */
        holds: z.boolean(),
      })
      .optional(),
    /** The database is to serve what was recovered. */
    switch_requested: z.boolean().default(false),
    requested_by: Id.optional(),
    requested_at: Timestamp,
    cancel_requested: z.boolean().default(false),
  }),
  observed: z.object({
    phase: RestorePhase,
    /** An attempt that its server lost is thrown away, and another one begins with a volume of its own. */
    attempt: z.int().optional(),
    /** The new volume of this attempt. */
    volume_id: Id.optional(),
    /** When the last transaction that was recovered was committed. */
    recovered_until: Timestamp.optional(),
    started_at: Timestamp.optional(),
    finished_at: Timestamp.optional(),
    /** The volume that has the former data; it stays for a week. */
    former_volume_id: Id.optional(),
    /** Since when it waits for somebody to decide. */
    held_since: Timestamp.optional(),
    /** The database did not serve what was restored, and is given its former data again. */
    goes_back: z.literal(true).optional(),
    error: z.object({ code: z.string(), message: z.string() }).optional(),
  }),
  owners: (d) => [
    d.of.kind === 'volume'
      ? { kind: 'project', id: d.project_id, blocks: true }
      : { kind: 'database', id: d.of.id, blocks: true },
  ],
  populates: { project: 'project' },
  indexes: {
    project: (d) => d.project_id,
    server: (d) => d.place.server_id,
    of: (d) => d.of.id,
    database: (d) => (d.of.kind === 'database' ? d.of.id : undefined),
    backup: (d) => d.backup_id,
    archive: (d) => d.recovery?.archive_id,
    volume: (d, o) => o?.volume_id ?? d.volume_id,
  },
  finalizers: ['restore'],
  keep: {
    newest: {
      count: retention.restoresPerDatabase,
      under: 'database',
      hasEnded: ({ observed }) => hasRestoreEnded(observed?.phase),
    },
    until: ({ desired, observed }) => {
      if (observed?.finished_at === undefined) return undefined;
      const ended = Date.parse(observed.finished_at);
      // what it found is on its backup
      if (desired.is_drill === true) return ended + retention.endedDrillsKeepMs;
      return desired.of.kind === 'database' ? undefined : ended + retention.endedRestoresKeepMs;
    },
  },
});
