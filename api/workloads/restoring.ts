import { defined } from '../../store/defined.ts';
import { volumeOf } from '../../store/new-database-volume.ts';
import { shownPhase } from '../../store/kinds/backup.ts';
import type { DesiredOf } from '../../store/kinds/kinds.ts';
import type { BackedUp } from '../../store/new-backup.ts';
import { goingOf, goingOn, isDrill, newDrill } from '../../store/new-drill.ts';
import { isStaying } from '../../store/resource.ts';
import { misfitOf } from '../../store/restorable.ts';
import type { RestoreSource } from '../../store/kinds/restore.ts';
import type { TenantView } from '../../store/mirror.ts';
import type { ReadonlyResource } from '../../store/resource.ts';
import type { Unit } from '../../store/unit-of-work.ts';
import { uuidv5 } from '../../store/uuid.ts';
import type { RequestContext } from '../endpoint/context.ts';
import { conflicting } from '../ground/api-error.ts';
import { restores } from '../resources/restore.ts';
import { takenParameters } from './database-parameters.ts';
import { newDatabase, requireDatabaseRoom } from './new-database.ts';
import { requireVolumeRoom } from './new-application.ts';
import { enterPlace, placeFrom } from './place.ts';
import { recoveryOfBase } from './recovering.ts';
import type { WantedRecovery } from './recovering.ts';

type Backup = ReadonlyResource<'backup'>;
type Database = ReadonlyResource<'database'>;

/**
 * Brings a backup back into a database, beside what that serves.
 *
 * @param recovery brings the backup to an instant; absent: to that of the backup itself
 * @throws ApiError CONFLICT
 */
export async function inPlace(
  ctx: RequestContext,
  backup: Backup,
  database: Database,
  recovery = recoveryOfBase(ctx.view, backup),
) {
  requireGood(backup, recovery);
  const misfit = misfitOf(backup, database.desired);
  if (misfit !== undefined) throw conflicting(`Cannot restore the backup as ${misfit}`);
  return beside(ctx, database, ctx.random.id(), (unit, at) => {
    unit.require(backup);
    return restoreOf(ctx, backup, { ...at, recovery });
  });
}

/** @throws ApiError CONFLICT while another restore runs, or if there is no room for another volume */
export function requireRestorable(view: TenantView, { meta, desired }: Database): void {
  const running = goingOf(view, meta.id).restore;
  if (running !== undefined)
    throw conflicting(`Restore ${running.meta.id} of the database has not ended: wait for it, or cancel it`);
  requireVolumeRoom(view, desired.project_id, { adding: 1 });
}

/** What a user asks for on a server goes before the drill that reads there, and ends those of the same object. */
export function endDrills(unit: Unit, view: TenantView, { id, server }: { id?: string; server: string }): void {
  const isInTheWay = ({ desired, observed }: ReadonlyResource<'restore'>): boolean =>
    desired.of.id === id || observed?.started_at !== undefined;
  for (const drill of goingOn(view, 'server', server).filter((it) => isDrill(it) && isInTheWay(it)))
    unit.change(drill, (draft) => void (draft.cancel_requested = true));
}

/** Restores a backup beside what it is of, and removes what was restored once all of it was read. @throws ApiError CONFLICT */
export async function forTrial(ctx: RequestContext, backup: Backup) {
  const { view } = ctx;
  const recovery = recoveryOfBase(view, backup);
  requireGood(backup, recovery);
  const of = triedIn(view, backup);
  const running = goingOf(view, of.it.meta.id).drills.find(({ desired }) => desired.backup_id === backup.meta.id);
  if (running !== undefined)
    throw conflicting(`Restore ${running.meta.id} tries the backup already: wait for it, or cancel it`);
  requireVolumeRoom(view, of.it.desired.project_id, { adding: 1 });
  const volumeId = ctx.random.id();
  const { restore, volume } = newDrill(backup, of, volumeId, ctx.clock.now());
  const unit = ctx.repo.begin();
  unit.require(backup);
  unit.require(of.it);
  unit.create('volume', volumeId, volume);
  // two at once: the second one finds the restore of the first one
  const known = view.by('restore', 'backup', backup.meta.id).map(({ meta }) => meta.id);
  const made = unit.create('restore', uuidv5(backup.meta.id, `verify/${known.toSorted().join()}`), {
    ...restore,
    requested_by: ctx.principal.user.meta.id,
    ...(recovery !== undefined && { recovery }),
  });
  return ctx.commit(unit, () => restores.answerOf(made, view));
}

/** Beside what a backup is tried. @throws ApiError CONFLICT */
function triedIn(view: TenantView, backup: Backup): BackedUp {
  const { of } = backup.desired;
  if (of.kind === 'database') {
    const it = view.get('database', of.id);
    if (!isStaying(it)) throw conflicting('The database of the backup is gone: restore it as a new one by new_name');
    const misfit = misfitOf(backup, it.desired);
    if (misfit !== undefined) throw conflicting(`Cannot try the backup as ${misfit}`);
    requireInSameProject(backup, it);
    return { kind: 'database', it };
  }
  const it = view.get('volume', of.id);
  if (!isStaying(it)) throw conflicting('The volume of the backup is gone: make a new one of the backup by clone');
  requireInSameProject(backup, it);
  return { kind: 'volume', it };
}

/**
 * What a backup is of is in the project whose people may use the backup: one that was taken up from a bucket says that itself.
 *
 * @throws ApiError CONFLICT
 */
export function requireInSameProject(backup: Backup, { meta, desired }: BackedUp['it']): void {
  if (desired.project_id === backup.desired.project_id) return;
  throw conflicting(
    `What the backup is of, ${meta.kind} ${desired.name}, is in another project: make a new one of the backup in this project`,
  );
}

/** Brings a dump of a user into a database, beside what that serves. `id`: of the restore. @throws ApiError CONFLICT */
export async function importInto(ctx: RequestContext, database: Database, id: string, source: RestoreSource) {
  return beside(ctx, database, id, (_, at) => wantedRestore(ctx, { source }, at));
}

/** Restores into a new volume of a database, beside the one that it serves from. @throws ApiError CONFLICT */
async function beside(
  ctx: RequestContext,
  database: Database,
  id: string,
  wanted: (unit: Unit, at: { id: string; desired: Database['desired']; volumeId: string }) => DesiredOf<'restore'>,
) {
  const { view } = ctx;
  requireRestorable(view, database);
  const volumeId = ctx.random.id();
  const unit = ctx.repo.begin();
  endDrills(unit, view, { id: database.meta.id, server: database.desired.server_id });
  // two at once: the second one finds another version of the database
  const { meta, desired } = unit.change(database, (draft) => void (draft.restore_token = volumeId));
  unit.create('volume', volumeId, volumeOf(meta.id, desired));
  const made = unit.create('restore', id, wanted(unit, { id: meta.id, desired, volumeId }));
  return ctx.commit(unit, () => restores.answerOf(made, view));
}

/** Makes a database as the one that the backup is of, which starts with what is restored. @throws ApiError CONFLICT */
export async function intoNew(
  ctx: RequestContext,
  backup: Backup,
  name: string,
  recovery = recoveryOfBase(ctx.view, backup),
) {
  const { view } = ctx;
  requireGood(backup, recovery);
  const { project_id, of: source } = backup.desired;
  if (source.kind !== 'database') throw conflicting('Cannot restore the backup as it is of a volume');
  const { engine, credentials } = source;
  const place = placeFrom(view, { project_id, ...backup.desired.place });
  requireDatabaseRoom(view, project_id, { adding: 1 });
  requireVolumeRoom(view, project_id, { adding: 2 });
  const [emptyId, volumeId] = [ctx.random.id(), ctx.random.id()];
  const settings = view.get('database', source.id)?.desired ?? source.settings;
  const body = {
    name,
    type: engine.type,
    version: engine.version,
    ...credentials,
    ...defined({
      memory_limit: settings?.memory_limit,
      cpu_limit: settings?.cpu_limit,
      parameters: settings && takenParameters(engine.type, settings.parameters),
      connection_pooling: settings?.connection_pooling,
      require_tls: settings?.require_tls,
    }),
  };
  const { id, desired } = newDatabase(ctx, place.fields, body, emptyId);
  const stopped = { ...desired, run: 'stopped' as const };
  const unit = ctx.repo.begin();
  unit.require(backup);
  endDrills(unit, view, { server: place.fields.server_id });
  enterPlace(unit, place);
  unit.create('database', id, stopped);
  unit.create('volume', emptyId, volumeOf(id, stopped));
  unit.create('volume', volumeId, volumeOf(id, stopped));
  const wanted = { ...restoreOf(ctx, backup, { id, desired: stopped, volumeId, recovery }), is_new: true };
  const made = unit.create('restore', ctx.random.id(), wanted);
  return ctx.commit(unit, () => restores.answerOf(made, view));
}

function restoreOf(
  ctx: RequestContext,
  backup: Backup,
  {
    id,
    desired,
    volumeId,
    recovery,
  }: {
    id: string;
    desired: Database['desired'] | DesiredOf<'database'>;
    volumeId: string;
    recovery: WantedRecovery | undefined;
  },
): DesiredOf<'restore'> {
  return {
    ...wantedRestore(ctx, { backup_id: backup.meta.id }, { id, desired, volumeId }),
    ...(recovery !== undefined && { recovery }),
  };
}

function wantedRestore(
  ctx: RequestContext,
  what: Pick<DesiredOf<'restore'>, 'backup_id' | 'source'>,
  { id, desired, volumeId }: { id: string; desired: Database['desired'] | DesiredOf<'database'>; volumeId: string },
): DesiredOf<'restore'> {
  const { project_id, environment_id, server_id, name } = desired;
  return {
    project_id,
    place: { environment_id, server_id },
    ...what,
    of: { kind: 'database', id },
    volume_id: volumeId,
    name,
    is_new: false,
    switch_requested: false,
    requested_by: ctx.principal.user.meta.id,
    requested_at: ctx.clock.now().toISOString(),
    cancel_requested: false,
  };
}

/** @throws ApiError CONFLICT unless the backup can be read */
function requireGood({ desired, observed }: Backup, recovery: WantedRecovery | undefined): void {
  if (desired.method === 'physical' && recovery === undefined)
    throw conflicting('Cannot restore the backup as the log that it needs is gone: choose another one');
  const phase = shownPhase(observed);
  if (phase === 'completed') return;
  throw conflicting(`Cannot restore the backup as it is ${phase}: choose one that is completed`);
}
