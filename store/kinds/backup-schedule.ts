import { z } from 'zod';
import { defineKind } from './define.ts';
import { DrillInterval } from '../drill-interval.ts';
import { Id, Timestamp } from './fields.ts';

/** `overdue`: none of its backups was good for twice the time between two of them. */
const SchedulePhase = z.enum(['active', 'overdue', 'paused']);

const DrillResult = z.object({
  backup_id: Id,
  status: z.enum(['proven', 'not_proven']),
  at: Timestamp,
  error: z.object({ code: z.string(), message: z.string() }).optional(),
});
export type DrillResult = z.infer<typeof DrillResult>;

/** Backs up a database, a volume, or all volumes of an application again and again. */
export const backupSchedule = defineKind({
  kind: 'backup_schedule',
  version: 1,
  desired: z.object({
    project_id: Id,
    of: z.object({ kind: z.enum(['database', 'volume', 'application']), id: Id }),
    destination_id: Id,
    /** Five fields, read in `timezone`, or an interval: see `time/recurrence.ts`. */
    cron_expression: z.string(),
    timezone: z.string(),
    /** Good backups of the schedule that stay. */
    retention_count: z.int().min(1).max(365),
    /** After so long the newest backup is restored for trial, and thrown away; absent: never. */
    verify_every: DrillInterval.optional(),
    is_paused: z.boolean().default(false),
  }),
  observed: z.object({
    phase: SchedulePhase,
    /** Up to this instant each one had its backup, or was missed. */
    handled_until: Timestamp,
    /** The time zone and the expression that held then. */
    rule: z.string().optional(),
    next_run_at: Timestamp.optional(),
    last_run_at: Timestamp.optional(),
    last_backup_id: Id.optional(),
    last_success_at: Timestamp.optional(),
    /** It was paused, or there was nothing to back up, as somebody wanted it. */
    is_idle: z.literal(true).optional(),
    /** The end of the last such time, or the last change of its times: what has to be good is counted from then on. */
    counted_from: Timestamp.optional(),
    /** Instants that had no backup, since the schedule was made. */
    missed: z.int().default(0),
    /** The last drill of each that it backs up. */
    drills: z
      .array(
        z.object({
          /** What was backed up. */
          of: Id,
          begun_at: Timestamp,
          /** What the last one that has ended showed; absent: none has. */
          result: DrillResult.optional(),
        }),
      )
      .optional(),
  }),
  owners: (d) => [{ kind: d.of.kind, id: d.of.id, blocks: true }],
  populates: { backup_destination: 'destination', project: 'project' },
  indexes: {
    project: (d) => d.project_id,
    of: (d) => d.of.id,
    destination: (d) => d.destination_id,
  },
  keep: { untilDeleted: 'A user deletes it, or it goes with what it backs up' },
});
