import { z } from 'zod';
import { CopyFrom, dataName, volume, VolumePhase } from '../../store/kinds/volume.ts';
import { plainCopy } from '../../store/plain-copy.ts';
import { placesOf } from '../../store/population.ts';
import type { TenantView } from '../../store/mirror.ts';
import { isDeleting, isStaying } from '../../store/resource.ts';
import type { ReadonlyResource } from '../../store/resource.ts';
import { scheduleOfVolume } from '../../store/volume-schedule.ts';
import { minutesOf, mostIntervalMinutes } from '../../time/recurrence.ts';
import { volumeVerbs } from '../../rules/volume.ts';
import { Labels, objectFields, objectFieldsOf, orNull, placeFields, Reference } from './object-fields.ts';
import { defineResource } from './resource.ts';
import { isReconciled } from './status.ts';

const Binding = z
  .object({
    workload_type: z.enum(['application', 'function']),
    workload_id: z.string(),
    mount_path: z.string(),
    read_only: z.boolean(),
  })
  .meta({ id: 'VolumeBinding' });

export const Volume = z
  .object({
    ...objectFields,
    project_id: z.string(),
    environment_id: z.string(),
    server_id: z.string(),
    name: z.string(),
    bindings: z.array(Binding).meta({ description: 'What mounts it' }),
    database_id: z.string().nullable().meta({ description: 'The database whose data it has' }),
    copy_from: CopyFrom.nullable().meta({
      description: 'What it began as a copy of: a Docker volume of its server; null where it began empty',
    }),
    docker_volume: z.string().meta({ description: 'Name at the engine of its server; a restore changes it' }),
    expires_at: z.string().nullable().meta({
      description: 'It has the former data of another volume since a restore, and is deleted then; null: it stays',
    }),
    backup_enabled: z.boolean().meta({ description: 'It has a backup schedule that is not paused' }),
    backup_interval_minutes: z.int().nullable().meta({ description: 'null: its schedule has a cron expression' }),
    backup_destination_id: z.string().nullable(),
    retention_count: z.int().nullable().meta({ description: 'Good backups of its schedule that stay' }),
    status: z.enum(VolumePhase.options),
  })
  .meta({ id: 'Volume' });
export type Volume = z.infer<typeof Volume>;

/** Of the backup schedule of a volume. */
const backupFields = {
  backup_enabled: z.boolean().nullish().meta({
    description: 'Makes its schedule, or pauses it; the other fields of backups are kept only where there is one',
  }),
  backup_interval_minutes: z
    .int()
    .min(1)
    .max(mostIntervalMinutes)
    .nullish()
    .meta({ description: 'Minutes between two backups, at least 5; by default 1440' }),
  backup_destination_id: Reference.nullish().meta({ description: 'By default the only one that there is' }),
  retention_count: z.int().min(1).max(365).nullish().meta({ description: 'Good backups that stay; by default 7' }),
};
export type VolumeBackupFields = z.output<z.ZodObject<typeof backupFields>>;

export const VolumeCreate = z.strictObject({
  ...placeFields,
  name: volume.desired.shape.name,
  ...backupFields,
  labels: Labels.optional(),
});

export const VolumeUpdate = z.strictObject({
  name: VolumeCreate.shape.name.optional(),
  ...backupFields,
  labels: VolumeCreate.shape.labels,
});

/** Folders that the kernel makes in each container. */
const ofKernel = /^\/(proc|sys|dev)(\/|$)/;

export const MountPath = z
  .string()
  .max(255)
  .regex(/^(\/(?!\.{1,2}(\/|$))[A-Za-z0-9._@+-]+)+$/, 'Must be an absolute path such as /var/lib/data')
  .refine((path) => !ofKernel.test(path), 'Must not be in /proc, /sys or /dev');

export const VolumeBind = z.strictObject({
  workload_type: z.enum(['application', 'function']),
  workload_id: Reference,
  mount_path: MountPath,
  read_only: z.boolean().optional(),
});

export const VolumeUnbind = z.strictObject({
  workload_id: Reference.nullish().meta({ description: 'Absent: all that mount it' }),
});

/** What mounts volumes for its users. */
export type MountingWorkload = ReadonlyResource<'application'> | ReadonlyResource<'function'>;

/** What mounts a volume. */
export function mountingWorkloads(view: TenantView, volumeId: string): readonly MountingWorkload[] {
  return [...view.by('application', 'volume', volumeId), ...view.by('function', 'volume', volumeId)];
}

/** The mounts of a volume by these workloads. */
function bindingsIn(workloads: readonly MountingWorkload[], volumeId: string): Volume['bindings'] {
  return workloads.flatMap(({ meta, desired }) =>
    desired.mounts
      .filter(({ volume_id }) => volume_id === volumeId)
      .map(({ path, read_only }) => ({
        workload_type: meta.kind,
        workload_id: meta.id,
        mount_path: path,
        read_only,
      })),
  );
}

type SeenOfVolume = Pick<
  Volume,
  'bindings' | 'backup_enabled' | 'backup_interval_minutes' | 'backup_destination_id' | 'retention_count'
>;

/** What an answer shows of other objects: the workloads that mount the volume, and its schedule as it is or will be. */
export function seenOf(
  view: TenantView,
  id: string,
  workloads: readonly MountingWorkload[],
  schedule = scheduleOfVolume(view, id),
): SeenOfVolume {
  const { desired } = schedule ?? {};
  return {
    bindings: bindingsIn(workloads, id),
    backup_enabled: desired?.is_paused === false,
    ...orNull({
      backup_interval_minutes: desired && minutesOf(desired.cron_expression),
      backup_destination_id: desired?.destination_id,
      retention_count: desired?.retention_count,
    }),
  };
}

export function volumeStatus(it: ReadonlyResource<'volume'>): Volume['status'] {
  return isDeleting(it) ? 'deleting' : (it.observed?.phase ?? 'pending');
}

/** Whether the status tells by now whether something mounts it. */
function isUseShown(it: ReadonlyResource<'volume'>, view: TenantView): boolean {
  const status = volumeStatus(it);
  if (status !== 'available' && status !== 'bound') return true;
  const { id } = it.meta;
  const users = [...mountingWorkloads(view, id), ...view.by('database', 'volume', id)];
  return users.some(isStaying) === (status === 'bound');
}

export const volumes = defineResource({
  kind: 'volume',
  word: 'Volume',
  project: ({ desired }) => desired.project_id,
  answer: Volume,
  seen: ({ meta }, view) => seenOf(view, meta.id, mountingWorkloads(view, meta.id)),
  show: (it, seen: SeenOfVolume): Volume => ({
    ...objectFieldsOf(it),
    project_id: it.desired.project_id,
    environment_id: it.desired.environment_id,
    server_id: it.desired.server_id,
    name: it.desired.name,
    ...seen,
    database_id: it.desired.database_id ?? null,
    copy_from: it.desired.copy_from === undefined ? null : plainCopy<CopyFrom>(it.desired.copy_from),
    docker_volume: dataName(it),
    expires_at: it.desired.expires_at ?? null,
    status: volumeStatus(it),
  }),
  list: {
    texts: ({ desired }) => [desired.name],
    status: {
      values: VolumePhase.options,
      of: volumeStatus,
    },
  },
  verbs: volumeVerbs,
  isSettled: (it, view) => isReconciled(it) && isUseShown(it, view),
  watch: {
    shows: {
      application: ({ before, after }) =>
        [before, after].flatMap((it) => (it === undefined ? [] : placesOf(it, 'volume'))),
      function: ({ before, after }) =>
        [before, after].flatMap((it) => (it === undefined ? [] : placesOf(it, 'volume'))),
      backup_schedule({ before, after }) {
        const of = (after ?? before)?.desired.of;
        return of?.kind === 'volume' ? [of.id] : [];
      },
    },
  },
});
