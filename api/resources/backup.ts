import { isDeepStrictEqual } from 'node:util';
import { z } from 'zod';
import { backupKeys } from '../../store/backup-keys.ts';
import { BackupMethod, hasBackupEnded, shownPhase } from '../../store/kinds/backup.ts';
import { DatabaseType } from '../../store/kinds/database.ts';
import { isDeleting } from '../../store/resource.ts';
import type { ReadonlyResource } from '../../store/resource.ts';
import type { TenantView } from '../../store/mirror.ts';
import { progressOf, taskProgress } from '../../store/task-progress.ts';
import { backupVerbs } from '../../rules/backup.ts';
import { UtcTime } from '../../store/kinds/fields.ts';
import { Labels, objectFields, objectFieldsOf, orNull, Reference } from './object-fields.ts';
import { defineResource } from './resource.ts';
import { isReconciled } from './status.ts';

type It = ReadonlyResource<'backup'>;
const nullableText = z.string().nullable();

const BackupProgress = z
  .object({
    done_bytes: z.int().meta({ description: 'Of the dump, before it is compressed' }),
    bytes_per_second: z.int().meta({ description: 'Since it began' }),
  })
  .meta({ id: 'BackupProgress' });

export const Backup = z
  .object({
    ...objectFields,
    project_id: z.string(),
    environment_id: z.string(),
    kind: z.enum(['database', 'volume']).meta({ description: 'What it is of' }),
    resource_id: z.string().meta({ description: 'The database or the volume that it is of, which may be gone' }),
    name: z.string().meta({ description: 'The name that what it is of had' }),
    type: DatabaseType.nullable().meta({ description: 'Of a database' }),
    version: nullableText.meta({ description: 'Of a database' }),
    schedule_id: nullableText,
    destination_id: z.string(),
    method: BackupMethod.meta({
      description: 'logical: a dump of a database. physical: the files of a database. snapshot: the files of a volume',
    }),
    trigger: z.enum(['manual', 'schedule']),
    status: z.enum(backupVerbs.states),
    progress: BackupProgress.nullable().meta({ description: 'null unless its server sends it' }),
    size_bytes: z.int().nullable().meta({ description: 'Of the object in the bucket' }),
    dump_bytes: z.int().nullable().meta({ description: 'Of the dump before it was compressed' }),
    changed_files: z
      .int()
      .nullable()
      .meta({ description: 'Of a volume: files that changed or went while they were read' }),
    left_out: z.int().nullable().meta({ description: 'Of a volume: sockets, which no archive has' }),
    notes: nullableText.meta({ description: 'Some of these files' }),
    checksum_sha256: nullableText.meta({ description: 'Of the object in the bucket, in hexadecimal' }),
    object_key: z.string().meta({ description: 'In the bucket, below path_prefix of the destination' }),
    pinned: z.boolean().meta({ description: 'It stays whatever its schedule says' }),
    requested_by: nullableText,
    requested_at: z.string(),
    started_at: nullableText,
    completed_at: nullableText.meta({ description: 'When it ended, in any way' }),
    verified_at: nullableText.meta({ description: 'When the bucket was last found to have the object' }),
    proven_at: nullableText.meta({ description: 'When all of it was last restored and read' }),
    verification: z
      .object({
        status: z.enum(['proven', 'not_proven']),
        at: z.string(),
        restore_id: z.string(),
        error: z.object({ code: z.string(), message: z.string() }).nullable(),
      })
      .nullable()
      .meta({ id: 'BackupVerification', description: 'What the last trial showed; null: it was never restored' }),
    expires_at: nullableText.meta({
      description: 'From then on its object is removed, unless it is the last good one; null: it stays',
    }),
    error: z.object({ code: z.string(), message: z.string() }).nullable(),
  })
  .meta({ id: 'Backup' });
export type Backup = z.infer<typeof Backup>;

export const BackupCreate = z.strictObject({
  destination_id: Reference.nullish().meta({
    description: 'By default that of a schedule of it, else the only one that there is',
  }),
  expires_at: UtcTime.nullish(),
  labels: Labels.optional(),
});

export const BackupUpdate = z.strictObject({
  pinned: z.boolean().optional(),
  expires_at: UtcTime.nullish(),
  labels: Labels.optional(),
});

/** How far its server is; `null` unless it sends. */
function progressFor(it: It, view: TenantView): z.infer<typeof BackupProgress> | null {
  if (hasBackupEnded(it.observed?.phase)) return null;
  const { done, per_second } = taskProgress(view, it.meta.id, 'backup') ?? {};
  return done === undefined ? null : { done_bytes: done, bytes_per_second: per_second ?? 0 };
}

function verificationOf({ observed }: It): Backup['verification'] {
  if (observed?.verification === undefined) return null;
  const { status, at, restore_id, error } = observed.verification;
  return { status, at, restore_id, error: error === undefined ? null : { ...error } };
}

function engineOf({ desired: { of } }: It) {
  return of.kind === 'database' ? of.engine : undefined;
}

function backupStatus(it: It): Backup['status'] {
  return isDeleting(it) ? 'deleting' : shownPhase(it.observed);
}

export const backups = defineResource({
  kind: 'backup',
  word: 'Backup',
  project: ({ desired }) => desired.project_id,
  answer: Backup,
  seen: (it, view) => ({ progress: progressFor(it, view) }),
  show: (it: It, seen: Pick<Backup, 'progress'>): Backup => {
    const { desired, observed } = it;
    const engine = engineOf(it);
    return {
      ...objectFieldsOf(it),
      project_id: desired.project_id,
      environment_id: desired.place.environment_id,
      kind: desired.of.kind,
      resource_id: desired.of.id,
      name: desired.name,
      destination_id: desired.destination_id,
      method: desired.method,
      trigger: desired.scheduled_for === undefined ? 'manual' : 'schedule',
      status: backupStatus(it),
      object_key: backupKeys(it).object,
      pinned: desired.pinned,
      requested_at: desired.requested_at,
      verification: verificationOf(it),
      ...seen,
      ...orNull({
        type: engine?.type,
        version: engine?.version,
        schedule_id: desired.schedule_id,
        requested_by: desired.requested_by,
        expires_at: desired.expires_at,
        size_bytes: observed?.size_bytes,
        dump_bytes: observed?.dump_bytes,
        changed_files: observed?.changed_files,
        left_out: observed?.left_out,
        notes: observed?.notes,
        checksum_sha256: observed?.checksum_sha256,
        started_at: observed?.started_at,
        completed_at: observed?.finished_at,
        verified_at: observed?.verified_at,
        proven_at: observed?.proven_at,
        error: observed?.error,
      }),
    };
  },
  list: {
    texts: (it) => [it.desired.name, engineOf(it)?.type ?? it.desired.of.kind],
    status: { values: backupVerbs.states, of: backupStatus },
  },
  verbs: backupVerbs,
  isSettled: (it) => hasBackupEnded(it.observed?.phase) && isReconciled(it),
  watch: {
    shows: {
      /** Its server reports how far it is. */
      assignment({ before, after }) {
        const { workload_kind: kind, workload_id: id } = (after ?? before)?.desired ?? {};
        if (kind !== 'backup' || id === undefined) return [];
        return isDeepStrictEqual(progressOf(before), progressOf(after)) ? [] : [id];
      },
    },
  },
});
