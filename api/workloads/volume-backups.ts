import { defined } from '../../store/defined.ts';
import type { ReadonlyResource } from '../../store/resource.ts';
import type { Unit } from '../../store/unit-of-work.ts';
import { scheduleOfVolume } from '../../store/volume-schedule.ts';
import { uuidv5 } from '../../store/uuid.ts';
import { everyMinutes } from '../../time/recurrence.ts';
import type { RequestContext } from '../endpoint/context.ts';
import { badField } from '../ground/api-error.ts';
import { seenOf } from '../resources/volume.ts';
import type { VolumeBackupFields } from '../resources/volume.ts';
import { requireInProject } from '../rights/in-project.ts';
import { destinationFor, requireOwnVolume } from './backing-up.ts';

type Volume = ReadonlyResource<'volume'>;
type Schedule = ReadonlyResource<'backup_schedule'>;

const details = ['backup_interval_minutes', 'backup_destination_id', 'retention_count'] as const;

/** Minutes between two backups unless a request says otherwise. */
const usualMinutes = 1440;
/** Fewest minutes between two backups that the fields of a volume may ask for; a schedule may have fewer, and is shown so. */
const fewestMinutes = 5;

/**
 * Makes the schedule of a new volume that the fields ask for. Returns it as it will be; `undefined`: none is asked for.
 *
 * @throws ApiError as `requireInProject` and `destinationFor`; BAD_REQUEST for a field of a schedule that is not asked for
 */
export function beginVolumeBackups(
  ctx: RequestContext,
  unit: Unit,
  { meta, desired }: Volume,
  fields: VolumeBackupFields,
): Schedule | undefined {
  requireEnabled(fields);
  if (fields.backup_enabled !== true) return undefined;
  const { backup_interval_minutes: minutes } = fields;
  if (typeof minutes === 'number') requireMinutes(minutes);
  requireInProject(ctx.principal, 'POST /backup-schedules', ctx.view, desired.project_id);
  const destination = destinationFor(ctx.view, fields.backup_destination_id, [], 'backup_destination_id');
  unit.require(destination);
  return unit.create('backup_schedule', scheduleId(ctx, meta.id), {
    project_id: desired.project_id,
    of: { kind: 'volume', id: meta.id },
    destination_id: destination.meta.id,
    cron_expression: everyMinutes(minutes ?? usualMinutes),
    timezone: 'UTC',
    retention_count: fields.retention_count ?? 7,
    is_paused: false,
  });
}

/**
 * Of two requests at once the second one finds the schedule of the first one. A schedule that was deleted gives none of its
 * backups to the next one.
 */
function scheduleId({ view }: RequestContext, volumeId: string): string {
  const former = view.by('backup', 'of', volumeId).flatMap(({ desired }) => desired.schedule_id ?? []);
  return uuidv5(volumeId, `schedule/${[...new Set(former)].toSorted().join()}`);
}

/**
 * Changes the schedule of a volume by its fields, or makes it: a field that is sent as it is shown changes nothing. Returns it
 * as it will be; `undefined`: there is none.
 *
 * @throws ApiError as `beginVolumeBackups`; BAD_REQUEST for a field of a schedule that there is not
 */
export function changeVolumeBackups(
  ctx: RequestContext,
  unit: Unit,
  it: Volume,
  fields: VolumeBackupFields,
): Schedule | undefined {
  const present = scheduleOfVolume(ctx.view, it.meta.id);
  const shown = seenOf(ctx.view, it.meta.id, [], present);
  const isSent = (field: keyof VolumeBackupFields): boolean =>
    fields[field] !== undefined && fields[field] !== null && fields[field] !== shown[field];
  if (![...details, 'backup_enabled' as const].some(isSent)) return present;
  if (present === undefined) {
    if (fields.backup_enabled === true) requireOwnVolume(ctx.view, it);
    return beginVolumeBackups(ctx, unit, it, fields);
  }
  requireInProject(ctx.principal, 'POST /backup-schedules', ctx.view, it.desired.project_id);
  const { backup_enabled: enabled, backup_interval_minutes: minutes, retention_count } = fields;
  if (typeof minutes === 'number' && isSent('backup_interval_minutes')) requireMinutes(minutes);
  const destination = isSent('backup_destination_id')
    ? destinationFor(ctx.view, fields.backup_destination_id, [], 'backup_destination_id')
    : undefined;
  if (destination !== undefined) unit.require(destination);
  return unit.change(present, (draft) => {
    Object.assign(
      draft,
      defined({
        is_paused: typeof enabled === 'boolean' ? !enabled : undefined,
        cron_expression: typeof minutes === 'number' ? everyMinutes(minutes) : undefined,
        destination_id: destination?.meta.id,
        retention_count: retention_count ?? undefined,
      }),
    );
  });
}

/** @throws ApiError BAD_REQUEST for a field of a schedule, where the request does not say whether there is to be one */
function requireEnabled(fields: VolumeBackupFields): void {
  const stray = details.find((field) => fields[field] !== undefined && fields[field] !== null);
  if (typeof fields.backup_enabled === 'boolean' || stray === undefined) return;
  throw badField(
    'backup_enabled',
    'required',
    `backup_enabled is required with ${stray}, as the volume has no schedule`,
  );
}

/** @throws ApiError BAD_REQUEST */
function requireMinutes(minutes: number): void {
  if (minutes >= fewestMinutes) return;
  throw badField('backup_interval_minutes', 'too_small', `backup_interval_minutes must be at least ${fewestMinutes}`);
}
