import { engines } from '../../databases/engines.ts';
import type { DesiredOf } from '../../store/kinds/kinds.ts';
import { cronFault } from '../../time/cron.ts';
import type { RequestContext } from '../endpoint/context.ts';
import { badField } from '../ground/api-error.ts';
import type { DatabaseSettings } from '../resources/database.ts';
import { destinationFor } from './backing-up.ts';

type Draft = DesiredOf<'database'>;
type Context = Pick<RequestContext, 'view' | 'random' | 'clock'>;

/** Base backups that stay unless something else is asked for. */
const usualCount = 7;

/** What a request wants to become of the backups of a database; `undefined`: what they are. @throws ApiError BAD_REQUEST */
export function wantedMode(body: DatabaseSettings): 'none' | 'scheduled' | 'pitr' | undefined {
  const { backup_mode: mode, pitr_enabled: isEnabled } = body;
  if (isEnabled === undefined || isEnabled === null) return mode ?? undefined;
  if (mode !== undefined && mode !== null && (mode === 'pitr') !== isEnabled)
    throw badField('pitr_enabled', 'conflict', 'pitr_enabled is true where backup_mode is pitr, and false otherwise');
  return mode ?? (isEnabled ? 'pitr' : 'none');
}

/**
 * Lets the writes of a database be archived, or not any more. Another destination begins another archive.
 *
 * @throws ApiError BAD_REQUEST for another engine, or for times that are none; as `destinationFor`
 */
export function setArchive(draft: Draft, body: DatabaseSettings, ctx: Context): void {
  const mode = wantedMode(body);
  const isOff = mode === 'none' || mode === 'scheduled' || (mode === undefined && draft.archive === undefined);
  if (isOff && mode !== 'scheduled') requireNoDetails(body);
  if (isOff) delete draft.archive;
  else draft.archive = archiveFor(draft, body, ctx);
}

function archiveFor(
  { type, archive: before }: Draft,
  body: DatabaseSettings,
  ctx: Context,
): NonNullable<Draft['archive']> {
  const engine = engines[type];
  if (engine.archive === undefined)
    throw badField(
      'backup_mode',
      'unsupported',
      `${engine.word} cannot be recovered to an instant: PostgreSQL alone can`,
    );
  const { backup_schedule: times, backup_retention_count: count } = body;
  if (times !== undefined && times !== null) requireTimes(times, ctx);
  const destination = destinationFor(ctx.view, body.backup_destination_id ?? before?.destination_id).meta.id;
  const cron = times === null ? undefined : (times ?? before?.cron_expression);
  return {
    id: before?.destination_id === destination ? before.id : ctx.random.id(),
    destination_id: destination,
    retention_count: count ?? before?.retention_count ?? usualCount,
    ...(cron !== undefined && { cron_expression: cron }),
  };
}

const details = ['backup_destination_id', 'backup_schedule', 'backup_retention_count'] as const;

/** @throws ApiError BAD_REQUEST for a detail of backups that nothing would act upon */
function requireNoDetails(body: DatabaseSettings): void {
  const given = details.find((field) => body[field] !== undefined && body[field] !== null);
  if (given !== undefined)
    throw badField(
      given,
      'unused',
      `${given} is taken with backup_mode scheduled or pitr; a schedule is changed by PUT /backup-schedules/ID`,
    );
}

/** @throws ApiError BAD_REQUEST if an expression names no times */
export function requireTimes(expression: string, { clock }: Pick<Context, 'clock'>): void {
  const fault = cronFault({ expression, timezone: 'UTC' }, clock.now());
  if (fault !== undefined) throw badField('backup_schedule', 'invalid', fault.message);
}
