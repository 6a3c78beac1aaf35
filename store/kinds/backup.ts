import { z } from 'zod';
import { retention } from '../retention.ts';
import { DatabaseType } from './database.ts';
import { defineKind } from './define.ts';
import { Id, Name, Timestamp } from './fields.ts';

/**
 * `verifying`: all bytes were sent, and the bucket is asked whether it has them. `completed` is a statement about the
 * bucket. `expired`: it was completed, and its object was removed as its time was over; see also `expiring`.
 */
export const BackupPhase = z.enum(['pending', 'running', 'verifying', 'completed', 'failed', 'expired']);
export type BackupPhase = z.infer<typeof BackupPhase>;

/** Whether nothing is done any more for a backup in this phase; `undefined`: it was not observed yet. */
export function hasBackupEnded(phase: BackupPhase | undefined): boolean {
  return phase === 'completed' || phase === 'failed' || phase === 'expired';
}

/** `logical`: a dump by the program of an engine. `physical`: the files of a database. `snapshot`: the files of a volume. */
export const BackupMethod = z.enum(['logical', 'physical', 'snapshot']);
export type BackupMethod = z.infer<typeof BackupMethod>;

/** What a database is set to. A new one that is made of its backup gets it, once the database itself is gone. */
export const BackedUpSettings = z.object({
  memory_limit: z.string().optional(),
  cpu_limit: z.string().optional(),
  parameters: z.record(z.string(), z.string()).optional(),
  connection_pooling: z.literal(true).optional(),
  require_tls: z.literal(true).optional(),
});

/** What a backup is of, as it was then. */
export const BackupOf = z.discriminatedUnion('kind', [
  z.object({
    kind: z.literal('database'),
    id: Id,
    /** The engine that can read it. */
    engine: z.object({ type: DatabaseType, version: z.string(), image: z.string().optional() }),
    /** Of the same database at the engine; a restore needs it to be the same. */
    credentials: z.object({ database_user: z.string(), database_name: z.string() }),
    /** Absent: an earlier release made the backup. */
    settings: BackedUpSettings.optional(),
  }),
  z.object({ kind: z.literal('volume'), id: Id }),
]);

/** Whether a backup could be restored, by a restore that has ended. */
const Verification = z.object({
  status: z.enum(['proven', 'not_proven']),
  at: Timestamp,
  restore_id: Id,
  error: z.object({ code: z.string(), message: z.string() }).optional(),
});

/** What a database or a volume holds at an instant, in the bucket of a destination. It outlives what it is of. */
export const backup = defineKind({
  kind: 'backup',
  version: 1,
  /** Only the API acts on them. */
  ignorable: [
    'of.settings',
    'of.settings.memory_limit',
    'of.settings.cpu_limit',
    'of.settings.parameters',
    'of.settings.connection_pooling',
    'of.settings.connection_pooling=true',
    'of.settings.require_tls',
    'of.settings.require_tls=true',
  ],
  desired: z.object({
    project_id: Id,
    /** Where it was taken. */
    place: z.object({ environment_id: Id, server_id: Id }),
    of: BackupOf,
    method: BackupMethod,
    destination_id: Id,
    /** Of a physical one: the log by which it is brought to an instant. */
    archive_id: Id.optional(),
    /** It brings data into this clone of an environment, and goes then. */
    clone_id: Id.optional(),
    /** The schedule that it is of. */
    schedule_id: Id.optional(),
    /** The instant of its schedule that it is for; absent: somebody asked for it. */
    scheduled_for: Timestamp.optional(),
    /** The name that what it is of had, for lists after its end. */
    name: Name,
    requested_by: Id.optional(),
    requested_at: Timestamp,
    cancel_requested: z.boolean().default(false),
    /** It stays whatever its schedule says. */
    pinned: z.boolean().default(false),
    /** It was found in its bucket, where another installation made it: what its manifest says. */
    found: z
      .object({
        /** Where its objects are, without the prefix of its destination. */
        folder: z.string(),
        size_bytes: z.int(),
        dump_bytes: z.int(),
        checksum_sha256: z.string(),
        started_at: Timestamp.optional(),
        finished_at: Timestamp,
      })
      .optional(),
    /** From then on its object is removed, unless it is the last good one; absent: it stays until it is deleted. */
    expires_at: Timestamp.optional(),
  }),
  observed: z.object({
    phase: BackupPhase,
    /** The upload in parts that its task sends to, until that was completed or aborted. */
    upload_id: z.string().optional(),
    /** Uploads that were begun for it; absent: one, or none. */
    uploads: z.int().optional(),
    /** The upload has parts that an interrupted attempt left, with which the bucket completes none: another one begins. */
    has_surplus: z.literal(true).optional(),
    /** Bytes that its volume took on the server when the upload was begun, if its agent said so in time. */
    expected_bytes: z.int().optional(),
    /** Bytes of the object in the bucket. */
    size_bytes: z.int().optional(),
    /** Bytes of it before it was compressed. */
    dump_bytes: z.int().optional(),
    /** Of the object in the bucket, in hexadecimal. */
    checksum_sha256: z.string().optional(),
    /** How the bucket names the content of the object. */
    etag: z.string().optional(),
    /** Of a physical one: the first and the last segment that it needs, and the first instant that it can be brought to. */
    log: z.object({ first_segment: z.string(), last_segment: z.string(), stopped_at: Timestamp }).optional(),
    started_at: Timestamp.optional(),
    finished_at: Timestamp.optional(),
    /** When the bucket was last found to have the object. */
    verified_at: Timestamp.optional(),
    /** Of one that was completed: the bucket was found without it, as it was sent, at each look since then. */
    lost: z.object({ since: Timestamp, looked_at: Timestamp }).optional(),
    /** Its time is over: its object is removed next, or was in part. Until it is taken back, nothing begins to read it. */
    expiring: z.literal(true).optional(),
    /** When all of it was last restored and read. */
    proven_at: Timestamp.optional(),
    /** What the last restore of it showed that was made for a trial, or that was completed. */
    verification: Verification.optional(),
    /** Of a volume that was used meanwhile: files that changed or went while they were read. */
    changed_files: z.int().optional(),
    /** Of a volume: sockets, which are in no archive. */
    left_out: z.int().optional(),
    /** Some of these, by what the program said of them. */
    notes: z.string().optional(),
    error: z.object({ code: z.string(), message: z.string() }).optional(),
  }),
  owners: (d) => [{ kind: 'project', id: d.project_id, blocks: true }],
  populates: { backup_destination: 'destination', project: 'project' },
  indexes: {
    project: (d) => d.project_id,
    server: (d) => d.place.server_id,
    of: (d) => d.of.id,
    database: (d) => (d.of.kind === 'database' ? d.of.id : undefined),
    volume: (d) => (d.of.kind === 'volume' ? d.of.id : undefined),
    destination: (d) => d.destination_id,
    schedule: (d) => d.schedule_id,
    archive: (d) => d.archive_id,
  },
  finalizers: ['backup'],
  keep: {
    until: ({ observed }) => keptUntil(observed ?? { phase: 'pending' }),
  },
});

/** The phase that users see: what is removed next is as good as gone. */
export function shownPhase(observed: Ended | undefined): BackupPhase {
  const { phase = 'pending', expiring } = observed ?? {};
  return expiring === true ? 'expired' : phase;
}

/** When the record of a backup goes by itself, in milliseconds since the epoch; `undefined`: it stays. */
export function keptUntil({ phase, finished_at, lost }: Ended): number | undefined {
  if (phase !== 'failed' && phase !== 'expired') return undefined;
  return Date.parse(lost?.since ?? finished_at ?? '') + retention.endedBackupsKeepMs;
}

interface Ended {
  readonly phase: BackupPhase;
  readonly expiring?: true | undefined;
  readonly finished_at?: string | undefined;
  readonly lost?: { readonly since: string } | undefined;
}

/** Whether its bucket has all of it, as far as is known: it can be restored, and stands for earlier ones. */
export function isGoodBackup(observed: Ended | undefined): boolean {
  return observed?.phase === 'completed' && observed.lost === undefined;
}
