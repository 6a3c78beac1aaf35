import type { z } from 'zod';
import { defined } from '../../store/defined.ts';
import type { DesiredOf } from '../../store/kinds/kinds.ts';
import { inParts, newBackup } from '../../store/new-backup.ts';
import type { BackedUp } from '../../store/new-backup.ts';
import { recurrenceFault } from '../../time/recurrence.ts';
import type { RequestContext } from '../endpoint/context.ts';
import { defineEndpoint } from '../endpoint/endpoint.ts';
import { targetsOf } from '../../store/backup-targets.ts';
import type { TenantView } from '../../store/mirror.ts';
import type { ReadonlyResource, Resource } from '../../store/resource.ts';
import type { Unit } from '../../store/unit-of-work.ts';
import { badField, conflicting } from '../ground/api-error.ts';
import { Backup, backups } from '../resources/backup.ts';
import {
  BackupSchedule,
  BackupScheduleCreate,
  backupSchedules,
  BackupScheduleUpdate,
} from '../resources/backup-schedule.ts';
import { assign, readOnlyFields } from '../resources/object-fields.ts';
import { countLimits, requireRoom } from '../rights/count-limits.ts';
import { destinationFor, requireBackupRoom, requireBackups, requireOwnVolume } from '../workloads/backing-up.ts';
import { referred } from '../workloads/references.ts';
import { eventsEndpoint, getEndpoint, listEndpoint } from './resource-endpoints.ts';

export const listBackupSchedules = listEndpoint(backupSchedules, {
  path: '/backup-schedules',
  summary: 'Backup schedules that one may see',
});

export const getBackupSchedule = getEndpoint(backupSchedules, {
  path: '/backup-schedules/:id',
  summary: 'A backup schedule, and when it is next',
});

export const createBackupSchedule = defineEndpoint({
  method: 'POST',
  path: '/backup-schedules',
  summary: 'Back up a database, a volume, or all volumes of an application again and again',
  projectFrom: 'body.backed_up',
  body: BackupScheduleCreate,
  response: BackupSchedule,
  status: 201,
  settle: backupSchedules.settle,
  handle: async (ctx, { body }) => {
    const { view } = ctx;
    const of = scheduled(view, body);
    requireRoom(view.by('backup_schedule', 'of', of.meta.id).length, countLimits.schedulesPerObject, {
      where: `The ${of.meta.kind}`,
      what: 'backup schedules',
      remedy: 'delete one of them, or change it',
    });
    const destination = destinationFor(view, body.destination_id);
    const desired: DesiredOf<'backup_schedule'> = {
      project_id: of.desired.project_id,
      of: { kind: kindOf(body), id: of.meta.id },
      destination_id: destination.meta.id,
      cron_expression: body.cron_expression,
      timezone: body.timezone ?? 'UTC',
      retention_count: body.retention_count ?? 7,
      is_paused: body.is_paused ?? false,
      ...defined({ verify_every: body.verify_every ?? undefined }),
    };
    requireRule(ctx, desired);
    const unit = ctx.repo.begin();
    unit.require(of);
    unit.require(destination);
    const it = unit.create('backup_schedule', ctx.random.id(), desired, defined({ labels: body.labels }));
    return ctx.commit(unit, () => backupSchedules.answerOf(it, view));
  },
});

export const updateBackupSchedule = defineEndpoint({
  method: 'PUT',
  path: '/backup-schedules/:id',
  summary: 'Change when a schedule backs up, where to, and how many backups stay',
  on: ['backup_schedule', 'id'],
  body: BackupScheduleUpdate,
  readOnly: readOnlyFields(BackupSchedule, BackupScheduleUpdate),
  response: BackupSchedule,
  settle: backupSchedules.settle,
  handle: async (ctx, { it, body }) => {
    const { labels, destination_id: destinationId, verify_every: every, ...settings } = body;
    const unit = ctx.repo.begin();
    const destination = destinationId === undefined ? undefined : destinationFor(ctx.view, destinationId);
    if (destination !== undefined) unit.require(destination);
    const changed = unit.change(it, (draft) => {
      Object.assign(draft, settings);
      assign(draft, 'verify_every', every);
      draft.destination_id = destination?.meta.id ?? draft.destination_id;
    });
    requireRule(ctx, changed.desired);
    if (labels !== undefined) unit.label(it, labels);
    return ctx.commit(unit, () => backupSchedules.answerOf(changed, ctx.view));
  },
});

export const deleteBackupSchedule = defineEndpoint({
  method: 'DELETE',
  path: '/backup-schedules/:id',
  summary: 'Delete a backup schedule; its backups stay',
  on: ['backup_schedule', 'id'],
  handle: async (ctx, { it }) => {
    const unit = ctx.repo.begin();
    unit.requestDelete(it);
    return ctx.commit(unit, () => undefined);
  },
});

/** A run is over once each of its backups is: the answer has the first one. */
const settleRun: typeof backups.settle = backups.settle && {
  ...backups.settle,
  isSettled(view, id) {
    const { schedule_id, requested_at } = view.get('backup', id)?.desired ?? {};
    const isOfRun = ({ desired }: ReadonlyResource<'backup'>): boolean => desired.requested_at === requested_at;
    const others = view.by('backup', 'schedule', schedule_id ?? '').filter(isOfRun);
    return [id, ...others.map(({ meta }) => meta.id)].every((one) => backups.settle?.isSettled(view, one) !== false);
  },
};

export const runBackupSchedule = defineEndpoint({
  method: 'POST',
  path: '/backup-schedules/:id/run',
  summary: 'Make a backup of a schedule now, which counts among those that stay',
  on: ['backup_schedule', 'id'],
  heavy: true,
  response: Backup,
  status: 201,
  settle: settleRun,
  handle: async (ctx, { it }) => {
    const { view } = ctx;
    const targets = targetsOf(it, view);
    if (targets.length === 0) throw conflicting('There is nothing to back up: the application mounts no volume');
    for (const of of targets) requireBackupRoom(view, of);
    const destination = destinationFor(view, it.desired.destination_id);
    const now = ctx.clock.now();
    const make = (part: readonly BackedUp[]): { unit: Unit; made: Resource<'backup'>[] } => {
      const unit = ctx.repo.begin();
      unit.require(it);
      unit.require(destination);
      const made = part.map((of) => {
        unit.require(of.it);
        return unit.create('backup', ctx.random.id(), {
          ...newBackup(of, destination, now),
          schedule_id: it.meta.id,
          requested_by: ctx.principal.user.meta.id,
        });
      });
      return { unit, made };
    };
    const parts = inParts(targets);
    for (const part of parts.slice(0, -1)) await ctx.commit(make(part).unit, () => undefined);
    const { unit, made } = make(parts.at(-1) ?? []);
    const [first] = made;
    if (first === undefined) throw conflicting('There is nothing to back up');
    return ctx.commit(unit, () => backups.answerOf(first, view));
  },
});

export const listBackupScheduleEvents = eventsEndpoint(backupSchedules, {
  path: '/backup-schedules/:id/events',
  summary: 'What happened to a backup schedule, newest first',
});

const scheduledKinds = ['database', 'volume', 'application'] as const;

/** Of which kind what the body names is. @throws ApiError BAD_REQUEST unless it names exactly one */
function kindOf(body: z.output<typeof BackupScheduleCreate>): (typeof scheduledKinds)[number] {
  const [kind, ...more] = scheduledKinds.filter((one) => typeof body[`${one}_id`] === 'string');
  if (kind !== undefined && more.length === 0) return kind;
  throw badField('database_id', 'required', 'Send one of database_id, volume_id and application_id');
}

/** What the body names. @throws ApiError as `referred`; CONFLICT for what has no backups */
function scheduled(view: TenantView, body: z.output<typeof BackupScheduleCreate>) {
  const kind = kindOf(body);
  const id = body[`${kind}_id`] ?? '';
  if (kind === 'application') return referred(view, 'application', id, 'application_id');
  if (kind === 'volume') {
    const it = referred(view, 'volume', id, 'volume_id');
    requireOwnVolume(view, it);
    return it;
  }
  const it = referred(view, 'database', id, 'database_id');
  requireBackups(it.desired.type);
  return it;
}

/** @throws ApiError BAD_REQUEST for an expression that never fires, and for a time zone that there is not */
function requireRule(
  { clock }: RequestContext,
  { cron_expression: expression, timezone }: Pick<DesiredOf<'backup_schedule'>, 'cron_expression' | 'timezone'>,
): void {
  const fault = recurrenceFault({ expression, timezone }, clock.now());
  if (fault === undefined) return;
  throw badField(fault.field === 'timezone' ? 'timezone' : 'cron_expression', 'invalid', fault.message);
}
