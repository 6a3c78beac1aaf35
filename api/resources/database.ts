import { z } from 'zod';
import { engines } from '../../databases/engines.ts';
import { RunState } from '../../store/kinds/application.ts';
import { database, DatabasePhase, DatabaseType } from '../../store/kinds/database.ts';
import { Port } from '../../store/kinds/fields.ts';
import type { DesiredOf } from '../../store/kinds/kinds.ts';
import type { TenantView } from '../../store/mirror.ts';
import { isDrill } from '../../store/new-drill.ts';
import { hasRestoreEnded } from '../../store/kinds/restore.ts';
import { isDeleting } from '../../store/resource.ts';
import type { ReadonlyResource } from '../../store/resource.ts';
import { databaseVerbs } from '../../rules/database.ts';
import { CpuLimit, MemoryLimit } from './fields.ts';
import { Labels, objectFields, objectFieldsOf, orNull, placeFields, Reference } from './object-fields.ts';
import { defineResource } from './resource.ts';
import { isReconciled } from './status.ts';

const nullableText = z.string().nullable();
const BackupMode = z.enum(['none', 'scheduled', 'pitr']);

export const Database = z
  .object({
    ...objectFields,
    project_id: z.string(),
    environment_id: z.string(),
    server_id: z.string(),
    name: z.string(),
    display_name: nullableText,
    internal_id: z.string().meta({ description: 'The name by which its environment reaches it' }),
    type: DatabaseType,
    version: z.string(),
    image: z.string().meta({ description: 'What it is run of' }),
    image_digest: nullableText.meta({ description: 'Pinned at its first start' }),
    database_name: z.string(),
    database_user: z.string(),
    memory_limit: nullableText,
    cpu_limit: nullableText,
    parameters: z.record(z.string(), z.string()).meta({ description: 'Settings of its engine that were given' }),
    exposed_port: z.int().nullable().meta({
      description: 'Port of its server that leads to it, where the server opens ports; null: only its environment does',
    }),
    connection_pooling: z.boolean().meta({ description: 'Clients may share connections to it, by its pooler' }),
    require_tls: z.boolean().meta({ description: 'Clients may connect by TLS alone' }),
    certificate_expires_at: nullableText.meta({ description: 'Renewed before that; null: it speaks no TLS' }),
    data_volume_id: z.string().meta({ description: 'The volume that its data is in' }),
    backup_mode: BackupMode.meta({
      description:
        'pitr: its writes are archived, so that it can be brought to any instant. scheduled: it has a schedule',
    }),
    pitr_enabled: z.boolean(),
    backup_destination_id: nullableText.meta({ description: 'Of its archive, or of its first schedule' }),
    backup_schedule: nullableText.meta({
      description: 'When base backups of its archive are made; null: once a day. Or the times of its first schedule',
    }),
    backup_retention_count: z.int().nullable(),
    run: RunState.meta({ description: 'Whether it shall run; status shows whether it does' }),
    status: DatabasePhase,
  })
  .meta({ id: 'Database' });
export type Database = z.infer<typeof Database>;

/** A password that every engine and every client takes. It may have each printable character of ASCII. */
const Password = z
  .string()
  .min(8)
  .max(128)
  .regex(/^[\x20-\x7e]+$/, 'Must be printable characters of ASCII');

const DisplayName = database.desired.shape.display_name.unwrap();

/** Other settings of its engine; null gives one its usual value back. */
const Parameters = z
  .record(
    z.string().max(64),
    z.union([z.string().max(1000), z.number(), z.null()]).transform((value) => (value === null ? null : String(value))),
  )
  .refine((all) => Object.keys(all).length <= 50, 'Must have at most 50')
  .meta({
    description: `Settings of its engine; null takes one back. It starts anew for them. ${parametersInWords()}`,
  });
const backupSettings = {
  backup_mode: BackupMode.nullish().meta({
    description: 'pitr: of PostgreSQL only; to turn it on or off restarts the database',
  }),
  pitr_enabled: z.boolean().nullish(),
  backup_destination_id: Reference.nullish().meta({ description: 'By default the only one that there is' }),
  backup_schedule: z.string().max(100).nullish().meta({ description: 'Five fields, in UTC' }),
  backup_retention_count: z
    .int()
    .min(1)
    .max(365)
    .nullish()
    .meta({ description: 'Good backups that stay; by default 7' }),
};
const BackupSettings = z.object(backupSettings);
export type DatabaseSettings = z.infer<typeof BackupSettings>;

const settings = {
  ...backupSettings,
  display_name: DisplayName.nullish(),
  memory_limit: MemoryLimit.nullish(),
  cpu_limit: CpuLimit.nullish(),
  parameters: Parameters.nullish(),
  exposed_port: Port.nullish(),
  connection_pooling: z.boolean().nullish().meta({
    description: 'Of PostgreSQL only: PgBouncer beside it, by which clients share connections for a transaction each',
  }),
  require_tls: z.boolean().nullish().meta({
    description:
      'Of PostgreSQL, MySQL and MariaDB: no connection without TLS, which clients may use anyway; a change restarts it',
  }),
  labels: Labels.optional(),
};

export const DatabaseCreate = z.strictObject({
  ...placeFields,
  ...settings,
  name: database.desired.shape.name,
  type: DatabaseType,
  version: z
    .string()
    .max(20)
    .nullish()
    .meta({ description: `By default the first: ${versionsInWords()}` }),
  database_name: z.string().max(63).nullish(),
  database_user: z.string().max(63).nullish(),
  password: Password.nullish().meta({ description: 'By default a generated one' }),
});
export type DatabaseCreate = z.infer<typeof DatabaseCreate>;

export const PasswordRotation = z.strictObject({
  password: Password.nullish().meta({ description: 'By default a generated one' }),
});

export const DatabaseUpdate = z.strictObject({ ...settings, name: DatabaseCreate.shape.name.optional() });
export type DatabaseUpdate = z.infer<typeof DatabaseUpdate>;

function versionsInWords(): string {
  return Object.values(engines)
    .map(({ type, versions }) => `${type} ${versions.join(', ')}`)
    .join('; ');
}

function parametersInWords(): string {
  return Object.values(engines)
    .flatMap(({ type, settings: of }) => (of === undefined ? [] : [`${type}: ${Object.keys(of.known).join(', ')}`]))
    .join('; ');
}

/**
 * The status of a database: the last one from its controller, or the one that follows from later requests. While other data
 * is to take the place of its own it is `provisioning`: a client that waits for `running` finds what was restored.
 */
export function databaseStatus(it: ReadonlyResource<'database'>, view: TenantView): DatabasePhase {
  return statusWith(it, restoringOf(it, view) !== null);
}

function statusWith(it: ReadonlyResource<'database'>, isRestoring: boolean): DatabasePhase {
  if (isDeleting(it)) return 'deleting';
  const phase = it.observed?.phase ?? 'provisioning';
  if (it.desired.run !== 'running') return phase;
  const isSeen = it.observed !== undefined && it.observed.observedGeneration >= it.meta.generation;
  return (!isSeen && phase === 'stopped') || isRestoring ? 'provisioning' : phase;
}

type Restoring = Pick<Database['conditions'][number], 'message' | 'last_transition_at'>;

/** The restore whose data takes the place of its own once it was checked; null: there is none. */
function restoringOf({ meta }: ReadonlyResource<'database'>, view: TenantView): Restoring | null {
  const found = view.by('restore', 'database', meta.id).find((it) => {
    const { is_new, recovery, switch_requested } = it.desired;
    if (isDrill(it) || is_new || isDeleting(it) || hasRestoreEnded(it.observed?.phase)) return false;
    return recovery?.holds !== true || switch_requested;
  });
  return found === undefined ? null : restoringBy(found);
}

function conditionOf({ observed }: ReadonlyResource<'database'>, restoring: Restoring): Database['conditions'][number] {
  const observed_generation = observed?.observedGeneration ?? 0;
  return { type: 'Restoring', status: 'true', reason: 'Restoring', observed_generation, ...restoring };
}

/** How a database shows that this restore is to take the place of its data. */
export function restoringBy({ meta }: Pick<ReadonlyResource<'restore'>, 'meta'>): Restoring {
  return {
    message: `Restore ${meta.id} brings other data. Until that was checked it serves what it served before`,
    last_transition_at: meta.createdAt,
  };
}

type Schedule = Pick<DesiredOf<'backup_schedule'>, 'destination_id' | 'cron_expression' | 'retention_count'>;

/** What its first schedule says. */
function scheduleOf(view: TenantView, id: string): Schedule | null {
  const [first] = view.by('backup_schedule', 'of', id);
  if (first === undefined) return null;
  const { destination_id, cron_expression, retention_count } = first.desired;
  return { destination_id, cron_expression, retention_count };
}

/** The database that a schedule or a restore is of; none if it is of something else. */
function databaseOf(desired: { readonly of: { readonly kind: string; readonly id: string } } | undefined): string[] {
  return desired?.of.kind === 'database' ? [desired.of.id] : [];
}

export const databases = defineResource({
  kind: 'database',
  word: 'Database',
  project: ({ desired }) => desired.project_id,
  answer: Database,
  seen: (it, view) => ({ schedule: scheduleOf(view, it.meta.id), restoring: restoringOf(it, view) }),
  show: (it, { schedule, restoring }: { schedule: Schedule | null; restoring: Restoring | null }): Database => {
    const { desired, observed } = it;
    const { archive } = desired;
    const { conditions, ...fields } = objectFieldsOf(it);
    return {
      ...fields,
      conditions: restoring === null ? conditions : [...conditions, conditionOf(it, restoring)],
      project_id: desired.project_id,
      environment_id: desired.environment_id,
      server_id: desired.server_id,
      name: desired.name,
      internal_id: desired.internal_id,
      type: desired.type,
      version: desired.version,
      image: desired.image ?? engines[desired.type].image(desired.version),
      database_name: desired.database_name,
      database_user: desired.database_user,
      data_volume_id: desired.data_volume_id,
      backup_mode: archive !== undefined ? 'pitr' : schedule === null ? 'none' : 'scheduled',
      pitr_enabled: archive !== undefined,
      connection_pooling: desired.connection_pooling === true,
      require_tls: desired.require_tls === true,
      run: desired.run,
      status: statusWith(it, restoring !== null),
      parameters: { ...desired.parameters },
      ...orNull({
        display_name: desired.display_name,
        image_digest: observed?.image_digest,
        memory_limit: desired.memory_limit,
        cpu_limit: desired.cpu_limit,
        exposed_port: desired.exposed_port,
        certificate_expires_at: desired.tls?.expires_at,
        backup_destination_id: (archive ?? schedule)?.destination_id,
        backup_schedule: (archive ?? schedule)?.cron_expression,
        backup_retention_count: (archive ?? schedule)?.retention_count,
      }),
    };
  },
  list: {
    texts: ({ desired }) => [desired.name, desired.display_name ?? '', desired.type],
    status: { values: DatabasePhase.options, of: databaseStatus },
  },
  verbs: databaseVerbs,
  isSettled: (it, view) => isReconciled(it) && !['provisioning', 'deleting'].includes(databaseStatus(it, view)),
  watch: {
    shows: {
      backup_schedule: ({ before, after }) => databaseOf((after ?? before)?.desired),
      restore: ({ before, after }) => databaseOf((after ?? before)?.desired),
    },
  },
});
