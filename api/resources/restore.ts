import { isDeepStrictEqual } from 'node:util';
import { z } from 'zod';
import { database } from '../../store/kinds/database.ts';
import { sideHost } from '../../store/kinds/internal-id.ts';
import { hasRestoreEnded } from '../../store/kinds/restore.ts';
import { isDrill } from '../../store/new-drill.ts';
import { isDeleting } from '../../store/resource.ts';
import type { ReadonlyResource } from '../../store/resource.ts';
import type { TenantView } from '../../store/mirror.ts';
import { progressOf, taskProgress } from '../../store/task-progress.ts';
import { restoreVerbs } from '../../rules/restore.ts';
import { volume } from '../../store/kinds/volume.ts';
import { StreamedFile } from '../http/streamed-upload.ts';
import { MountPath } from './volume.ts';
import { objectFields, objectFieldsOf, orNull, Reference } from './object-fields.ts';
import { defineResource } from './resource.ts';
import { isReconciled } from './status.ts';

type It = ReadonlyResource<'restore'>;
const nullableText = z.string().nullable();

export const Restore = z
  .object({
    ...objectFields,
    project_id: z.string(),
    environment_id: z.string(),
    name: z.string().meta({ description: 'The name of the database or the volume' }),
    kind: z.enum(['database', 'volume']),
    resource_id: z.string().meta({ description: 'The database or the volume that gets the data' }),
    backup_id: nullableText.meta({ description: 'null: it is an import, whose source says of what' }),
    source: z
      .object({
        kind: z.enum(['backup', 'upload', 'url', 'path']),
        url: nullableText.meta({ description: 'Without what comes after its path' }),
        path: nullableText.meta({ description: 'Below the folder for imports of the server' }),
        size_bytes: z.int().nullable(),
      })
      .meta({ id: 'RestoreSource', description: 'What is restored' }),
    is_drill: z.boolean().meta({ description: 'What was restored is removed once all of it was read' }),
    database_id: nullableText,
    volume_id: z.string().meta({ description: 'The new volume, which it is restored into' }),
    former_volume_id: nullableText.meta({
      description: 'What has the former data; it stays for a week. null until what was restored is in its place',
    }),
    status: z.enum(restoreVerbs.states).meta({
      description: 'Until switching the database serves what it served before',
    }),
    progress: z
      .object({ done_bytes: z.int(), total_bytes: z.int(), bytes_per_second: z.int() })
      .nullable()
      .meta({ id: 'RestoreProgress', description: 'Of the dump; null unless it is being read' }),
    target_time: nullableText.meta({ description: 'The instant that it is brought to; null: that of the backup' }),
    recovered_until: nullableText.meta({ description: 'When the last transaction in it was committed' }),
    internal_host: nullableText.meta({
      description: 'Where its environment reaches what was recovered, while it is ready_to_switch',
    }),
    requested_by: nullableText,
    requested_at: z.string(),
    started_at: nullableText,
    finished_at: nullableText,
    error: z.object({ code: z.string(), message: z.string() }).nullable(),
  })
  .meta({ id: 'Restore' });
export type Restore = z.infer<typeof Restore>;

/** Of a restore into the database that the path names. */
export const RestoreInPlace = z.strictObject({ backup_id: Reference });

const longestAddress = 2048;

/** Of an import: a form with the file, or the address that the server of the database fetches it from. */
export const Import = z.strictObject({
  url: z
    .url({ protocol: /^https?$/, error: 'Must begin with https://' })
    .max(longestAddress)
    .optional()
    .meta({ description: 'Of the dump, which the server of the database fetches. Needed unless a file is sent' }),
  file: StreamedFile.optional().meta({ description: 'The dump' }),
});

export const RestoreFromPath = z.strictObject({
  path: z.string().min(1).max(1024).meta({ description: 'Of a file below the folder for imports of the server' }),
});

/** Of the backup that the path names. */
export const RestoreOf = z.strictObject({
  database_id: Reference.nullish().meta({ description: 'By default the database that it is of' }),
  new_name: database.desired.shape.name
    .nullish()
    .meta({ description: 'Of a database that is made for it, beside the one that it is of' }),
});

export function restoreStatus(it: It): Restore['status'] {
  if (isDeleting(it)) return 'deleting';
  const { phase = 'pending' } = it.observed ?? {};
  // nothing is switched to it: its instance ends
  return phase === 'switching' && isDrill(it) ? 'verifying' : phase;
}

function progressFor(it: It, view: TenantView): Restore['progress'] {
  if (hasRestoreEnded(it.observed?.phase)) return null;
  const { done, total, per_second } = taskProgress(view, it.meta.id, 'restore') ?? {};
  if (done === undefined || total === undefined) return null;
  return { done_bytes: done, total_bytes: total, bytes_per_second: per_second ?? 0 };
}

/** A new volume has no former data. */
function formerOf({ desired, observed }: It): string | undefined {
  return desired.of.kind === 'volume' && desired.is_new ? undefined : observed?.former_volume_id;
}

function sourceOf({ desired: { source } }: It): Restore['source'] {
  return {
    kind: source?.by ?? 'backup',
    url: source?.by === 'url' ? source.shown : null,
    path: source?.by === 'path' ? source.path : null,
    size_bytes: source === undefined || source.by === 'url' ? null : source.size_bytes,
  };
}

/** Of a clone of the volume that the path names a backup of. */
export const VolumeClone = z.strictObject({
  name: volume.desired.shape.name
    .nullish()
    .meta({ description: 'Of the new volume; by default that of the former one' }),
  workload_type: z
    .enum(['application', 'function'])
    .nullish()
    .meta({ description: 'By default what workload_id is of' }),
  workload_id: Reference.nullish().meta({ description: 'What is to mount it; it is then on the server of that' }),
  mount_path: MountPath.nullish().meta({ description: 'Needed with workload_id' }),
  read_only: z.boolean().nullish(),
  project_id: Reference.nullish().meta({ description: 'Without workload_id: by default that of the backup' }),
  environment_id: Reference.nullish(),
  server_id: Reference.nullish(),
});

export type VolumeClone = z.infer<typeof VolumeClone>;

function hostFor(it: It, view: TenantView): string | null {
  if (it.observed?.phase !== 'ready_to_switch') return null;
  const name = view.get('database', it.desired.of.id)?.desired.internal_id;
  return name === undefined ? null : sideHost(name);
}

export const restores = defineResource({
  kind: 'restore',
  word: 'Restore',
  project: ({ desired }) => desired.project_id,
  answer: Restore,
  seen: (it: It, view: TenantView) => ({ progress: progressFor(it, view), internal_host: hostFor(it, view) }),
  show: (it: It, seen: Pick<Restore, 'progress' | 'internal_host'>): Restore => {
    const { desired, observed } = it;
    return {
      ...objectFieldsOf(it),
      ...seen,
      project_id: desired.project_id,
      environment_id: desired.place.environment_id,
      name: desired.name,
      source: sourceOf(it),
      is_drill: isDrill(it),
      kind: desired.of.kind,
      resource_id: desired.of.id,
      volume_id: observed?.volume_id ?? desired.volume_id,
      status: restoreStatus(it),
      requested_at: desired.requested_at,
      ...orNull({
        backup_id: desired.backup_id,
        database_id: desired.of.kind === 'database' ? desired.of.id : undefined,
        former_volume_id: formerOf(it),
        target_time: desired.recovery?.target_time,
        recovered_until: observed?.recovered_until,
        requested_by: desired.requested_by,
        started_at: observed?.started_at,
        finished_at: observed?.finished_at,
        error: observed?.error,
      }),
    };
  },
  list: {
    texts: ({ desired }) => [desired.name],
    status: { values: restoreVerbs.states, of: restoreStatus },
  },
  verbs: restoreVerbs,
  isSettled: (it) =>
    (hasRestoreEnded(it.observed?.phase) || it.observed?.phase === 'ready_to_switch') && isReconciled(it),
  watch: {
    shows: {
      /** Its server reports how far it is. */
      assignment({ before, after }) {
        const { workload_kind: kind, workload_id: id } = (after ?? before)?.desired ?? {};
        if (kind !== 'restore' || id === undefined) return [];
        return isDeepStrictEqual(progressOf(before), progressOf(after)) ? [] : [id];
      },
    },
  },
});
