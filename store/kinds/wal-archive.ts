import { z } from 'zod';
import { DatabaseType } from './database.ts';
import { defineKind } from './define.ts';
import { Id, Name, Timestamp } from './fields.ts';

/**
 * `starting`: nothing is in the bucket yet. `behind`: what was written waits on its server. `broken`: a segment was refused.
 * `ended`: the database writes elsewhere, or is not archived any more; what is in the bucket stays as long as there is a base
 * backup of it. `removed`: nothing of it is in the bucket any more.
 */
const ArchivePhase = z.enum(['starting', 'archiving', 'behind', 'broken', 'ended', 'removed']);

/** Segments that the bucket has not, between two that it has. */
const Gap = z.object({ after: z.string(), before: z.string() });

/**
 * The log of writes of a database from a moment on, without a break: one volume, one cluster, one timeline, one bucket. With a
 * base backup it leads to any instant since. Another volume, another bucket, or a time without archiving begin another one.
 */
export const walArchive = defineKind({
  kind: 'wal_archive',
  version: 1,
  desired: z.object({
    project_id: Id,
    place: z.object({ environment_id: Id, server_id: Id }),
    database_id: Id,
    /** The volume whose writes they are. */
    volume_id: Id,
    destination_id: Id,
    /** The name of the database, for lists and messages. */
    name: Name,
    engine: z.object({ type: DatabaseType, version: z.string() }),
    /** Nothing is added to it any more. */
    ended: z.boolean().default(false),
  }),
  observed: z.object({
    phase: ArchivePhase,
    system_identifier: z.string().optional(),
    /** What is in the bucket, as the agent reports it. */
    last_segment: z.string().optional(),
    sent_at: Timestamp.optional(),
    /** What was committed until then can be recovered, by segments up to that one. */
    until: Timestamp.optional(),
    until_segment: z.string().optional(),
    /** When the bucket was last asked which segments it has, from the first base backup to the last segment. */
    checked_at: Timestamp.optional(),
    /** Recoveries that were asked for by this revision of the store were before that. */
    checked_for: z.int().optional(),
    gaps: z.array(Gap).default([]),
    removed_at: Timestamp.optional(),
    /** Users were notified of this trouble. */
    notified: z.enum(['behind', 'broken', 'gap']).optional(),
  }),
  owners: (d) => [{ kind: 'project', id: d.project_id, blocks: true }],
  populates: { backup_destination: 'destination', project: 'project' },
  indexes: {
    project: (d) => d.project_id,
    server: (d) => d.place.server_id,
    database: (d) => d.database_id,
    destination: (d) => d.destination_id,
  },
  clone: { never: 'A copy begins without archives: it never writes into those of its origin' },
  finalizers: ['wal_archive'],
  keep: {
    until: ({ observed }) => (observed?.removed_at === undefined ? undefined : Date.parse(observed.removed_at)),
  },
});
