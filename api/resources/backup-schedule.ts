import { z } from 'zod';
import { backupSchedule } from '../../store/kinds/backup-schedule.ts';
import { nextDrillAt, shownResult } from '../../store/last-drills.ts';
import { isDeleting } from '../../store/resource.ts';
import type { ReadonlyResource } from '../../store/resource.ts';
import type { TenantView } from '../../store/mirror.ts';
import { backupScheduleVerbs } from '../../rules/backup-schedule.ts';
import { Labels, objectFields, objectFieldsOf, orNull, Reference } from './object-fields.ts';
import { defineResource } from './resource.ts';
import { isReconciled } from './status.ts';

type It = ReadonlyResource<'backup_schedule'>;
const nullableText = z.string().nullable();

export const BackupSchedule = z
  .object({
    ...objectFields,
    project_id: z.string(),
    environment_id: z.string(),
    name: z.string().meta({ description: 'The name of what it backs up' }),
    database_id: nullableText,
    volume_id: nullableText,
    application_id: nullableText.meta({ description: 'All volumes that it mounts are backed up' }),
    destination_id: z.string(),
    cron_expression: z.string(),
    timezone: z.string(),
    retention_count: z.int(),
    is_paused: z.boolean(),
    status: z.enum(backupScheduleVerbs.states).meta({
      description: 'overdue: none of its backups was good for twice the time between two of them',
    }),
    next_run_at: nullableText,
    last_run_at: nullableText,
    last_backup_id: nullableText,
    last_success_at: nullableText,
    verify_every: nullableText.meta({ description: 'How often its newest backup is restored for trial; null: never' }),
    next_verify_at: nullableText.meta({ description: 'null: never, or once a backup of it is good' }),
    verification: z
      .object({
        status: z.enum(['proven', 'not_proven']),
        at: z.string(),
        backup_id: z.string(),
        error: z.object({ code: z.string(), message: z.string() }).nullable(),
      })
      .nullable()
      .meta({ id: 'ScheduleVerification', description: 'What the last trial showed; null: there was none yet' }),
    missed: z.int().meta({ description: 'Backups that were left out since it was made' }),
  })
  .meta({ id: 'BackupSchedule' });
export type BackupSchedule = z.infer<typeof BackupSchedule>;

const settings = {
  destination_id: Reference.meta({ description: 'By default the only one that there is' }),
  cron_expression: z.string().max(100).meta({
    description: 'Minute, hour, day of the month, month, day of the week; or a word such as @daily or @every 90m',
  }),
  timezone: z.string().max(64).meta({ description: 'Such as Europe/Berlin; by default UTC' }),
  retention_count: z.int().min(1).max(365).meta({ description: 'Good backups that stay; by default 7' }),
  is_paused: z.boolean(),
  verify_every: backupSchedule.desired.shape.verify_every.unwrap().nullable().meta({
    description:
      'After so long, such as 7d or 2w, the newest backup is restored beside what is there, read, and removed; null: never',
  }),
};

export const BackupScheduleCreate = z.strictObject({
  database_id: Reference.nullish(),
  volume_id: Reference.nullish(),
  application_id: Reference.nullish().meta({
    description: 'All volumes that it mounts; retention_count is of each. One of the three is sent',
  }),
  ...settings,
  destination_id: settings.destination_id.nullish(),
  timezone: settings.timezone.nullish(),
  retention_count: settings.retention_count.nullish(),
  is_paused: settings.is_paused.nullish(),
  verify_every: settings.verify_every.optional(),
  labels: Labels.optional(),
});

export const BackupScheduleUpdate = z.strictObject({ ...settings, labels: Labels }).partial();

function statusOf(it: It): BackupSchedule['status'] {
  if (isDeleting(it)) return 'deleting';
  if (it.desired.is_paused) return 'paused';
  return it.observed?.phase === 'overdue' ? 'overdue' : 'active';
}

function verificationOf({ observed }: It): BackupSchedule['verification'] {
  const shown = shownResult(observed?.drills ?? []);
  if (shown === undefined) return null;
  const { status, at, backup_id, error } = shown;
  return { status, at, backup_id, error: error === undefined ? null : { ...error } };
}

interface Change {
  before?: { meta: { id: string }; desired: { name: string } } | undefined;
  after?: { meta: { id: string }; desired: { name: string } } | undefined;
}

function named({ before, after }: Change, view: TenantView): string[] {
  if (before?.desired.name === after?.desired.name) return [];
  return view.by('backup_schedule', 'of', (after ?? before)?.meta.id ?? '').map(({ meta }) => meta.id);
}

export const backupSchedules = defineResource({
  kind: 'backup_schedule',
  word: 'Backup schedule',
  project: ({ desired }) => desired.project_id,
  answer: BackupSchedule,
  seen: (it: It, view: TenantView) => {
    const of = view.get(it.desired.of.kind, it.desired.of.id)?.desired;
    return { name: of?.name ?? '', environment_id: of?.environment_id ?? '' };
  },
  show: (it: It, seen: Pick<BackupSchedule, 'name' | 'environment_id'>): BackupSchedule => {
    const { desired, observed } = it;
    return {
      ...objectFieldsOf(it),
      ...seen,
      project_id: desired.project_id,
      destination_id: desired.destination_id,
      cron_expression: desired.cron_expression,
      timezone: desired.timezone,
      retention_count: desired.retention_count,
      is_paused: desired.is_paused,
      status: statusOf(it),
      missed: observed?.missed ?? 0,
      verification: verificationOf(it),
      ...orNull({
        verify_every: desired.verify_every,
        next_verify_at: nextDrillAt(desired, observed?.drills),
        database_id: desired.of.kind === 'database' ? desired.of.id : undefined,
        volume_id: desired.of.kind === 'volume' ? desired.of.id : undefined,
        application_id: desired.of.kind === 'application' ? desired.of.id : undefined,
        next_run_at: observed?.next_run_at,
        last_run_at: observed?.last_run_at,
        last_backup_id: observed?.last_backup_id,
        last_success_at: observed?.last_success_at,
      }),
    };
  },
  list: {
    texts: ({ desired }) => [desired.cron_expression, desired.timezone],
    status: { values: backupScheduleVerbs.states, of: statusOf },
  },
  verbs: backupScheduleVerbs,
  isSettled: (it) => isReconciled(it),
  watch: {
    shows: {
      /** It has the name of what it backs up. */
      database: named,
      volume: named,
      application: named,
    },
  },
});
