import { isDeepStrictEqual } from 'node:util';
import { defined } from '../../store/defined.ts';
import type { DesiredOf } from '../../store/kinds/kinds.ts';
import type { TenantView } from '../../store/mirror.ts';
import { volumeOf } from '../../store/new-database-volume.ts';
import { isKind } from '../../store/resource.ts';
import type { ReadonlyResource, Resource } from '../../store/resource.ts';
import type { Unit } from '../../store/unit-of-work.ts';
import type { RequestContext } from '../endpoint/context.ts';
import { badField, conflicting } from '../ground/api-error.ts';
import type { DatabaseCreate, DatabaseSettings, DatabaseUpdate } from '../resources/database.ts';
import { assign } from '../resources/object-fields.ts';
import { requireInProject } from '../rights/in-project.ts';
import { requireTimes, setArchive, wantedMode } from './archiving.ts';
import { destinationFor, requireBackups } from './backing-up.ts';
import { changedParameters, requireMemory } from './database-parameters.ts';
import { setEncryption } from './encryption.ts';
import { referralsInWords, referringWorkloads } from './env-references.ts';
import { requireVolumeRoom } from './new-application.ts';
import { newDatabase, requireDatabaseRoom } from './new-database.ts';
import { enterPlace } from './place.ts';
import type { Place } from './place.ts';
import { setPooling } from './pooling.ts';
import { requirePort } from './ports.ts';

/** Adds a new database and its volume to a unit, judged by all that a request for it is judged by. @throws ApiError */
export function addDatabase(ctx: RequestContext, unit: Unit, place: Place, body: DatabaseCreate): Resource<'database'> {
  const { view } = ctx;
  const { project_id: projectId, server_id: serverId } = place.fields;
  requireDatabaseRoom(view, projectId, { adding: 1 });
  requireVolumeRoom(view, projectId, { adding: 1 });
  requirePort(ctx, { projectId, serverId, port: body.exposed_port ?? undefined });
  const volumeId = ctx.random.id();
  const { id, desired } = newDatabase(ctx, place.fields, body, volumeId);
  setArchive(desired, body, ctx);
  requireArchiveRights(ctx, desired);
  enterPlace(unit, place);
  holdDestination(view, unit, desired);
  const it = unit.create('database', id, desired, defined({ labels: body.labels }));
  unit.create('volume', volumeId, volumeOf(id, desired));
  if (wantedMode(body) === 'scheduled') schedule(ctx, unit, it, body);
  return it;
}

/** Writes the sent fields, except the name, into a draft. @throws ApiError BAD_REQUEST */
export function writeDatabase(draft: DesiredOf<'database'>, body: DatabaseUpdate, ctx: RequestContext): void {
  assign(draft, 'display_name', body.display_name);
  assign(draft, 'memory_limit', body.memory_limit);
  assign(draft, 'cpu_limit', body.cpu_limit);
  assign(draft, 'exposed_port', body.exposed_port);
  setPooling(draft, body.connection_pooling);
  setEncryption(draft, body.require_tls);
  setArchive(draft, body, ctx);
  if (body.parameters === undefined) return;
  assign(draft, 'parameters', changedParameters(draft.type, draft.parameters, body.parameters) ?? null);
}

/** Judges a database as a request has changed it, and adds to the unit what follows from that. @throws ApiError */
export function judgeDatabase(
  ctx: RequestContext,
  unit: Unit,
  { it, changed, body }: { it: Stored; changed: Stored; body: DatabaseUpdate },
): void {
  const { desired } = changed;
  requireArchiveRights(ctx, desired, it.desired);
  setSchedule(ctx, unit, { it, changed, body });
  if (desired.archive?.destination_id !== it.desired.archive?.destination_id) holdDestination(ctx.view, unit, desired);
  if (desired.name !== it.desired.name) requireUnreferred(ctx.view, it);
  if (desired.parameters !== it.desired.parameters || desired.memory_limit !== it.desired.memory_limit)
    requireMemory(desired);
  if (desired.exposed_port === it.desired.exposed_port) return;
  const { project_id: projectId, server_id: serverId, exposed_port: port } = desired;
  requirePort(ctx, { id: it.meta.id, projectId, serverId, port });
}

/** @throws ApiError CONFLICT naming the applications that refer to the database by its name */
export function requireUnreferred(view: TenantView, it: Stored): void {
  const lack = referralsInWords(it, referringWorkloads(view, it));
  if (lack !== undefined) throw conflicting(`${lack}: change them first`);
}

/**
 * What is archived, and how much of it stays, is decided by those who may make schedules: an archive sends the data elsewhere; fewer base
 * backups, or another destination, remove what is there.
 *
 * @throws ApiError as `requireInProject`
 */
function requireArchiveRights(
  ctx: Pick<RequestContext, 'principal' | 'view'>,
  { archive, project_id: projectId }: Archived,
  before?: Archived,
): void {
  if (isDeepStrictEqual(before?.archive, archive)) return;
  requireInProject(ctx.principal, 'POST /backup-schedules', ctx.view, projectId);
}

/** Guards that the destination of the archive stays. */
function holdDestination(view: TenantView, unit: Unit, { archive }: Pick<Stored['desired'], 'archive'>): void {
  const destination = archive && view.get('backup_destination', archive.destination_id);
  if (destination !== undefined) unit.require(destination);
}

type Context = Pick<RequestContext, 'view' | 'random' | 'clock' | 'principal'>;
type Stored = ReadonlyResource<'database'>;
type Archived = Pick<Stored['desired'], 'archive' | 'project_id'>;

/** Makes the schedule that a mode asks for. @throws ApiError as `requireInProject` and `destinationFor`; BAD_REQUEST without times */
function schedule(
  ctx: Context,
  unit: Unit,
  { meta, desired }: Pick<Stored, 'meta' | 'desired'>,
  body: DatabaseSettings,
): void {
  requireInProject(ctx.principal, 'POST /backup-schedules', ctx.view, desired.project_id);
  requireBackups(desired.type);
  const { backup_schedule: times, backup_destination_id: named, backup_retention_count: count } = body;
  if (times === undefined || times === null)
    throw badField('backup_schedule', 'required', 'backup_schedule is required with backup_mode scheduled');
  requireTimes(times, ctx);
  const destination = destinationFor(ctx.view, named);
  unit.require(destination);
  unit.create('backup_schedule', ctx.random.id(), {
    project_id: desired.project_id,
    of: { kind: 'database', id: meta.id },
    destination_id: destination.meta.id,
    cron_expression: times,
    timezone: 'UTC',
    retention_count: count ?? 7,
    is_paused: false,
  });
}

/**
 * Changes the first schedule of a database, which its fields are of: one that is sent as it is shown changes nothing. The times
 * stay in the time zone of the schedule. @throws ApiError as `requireInProject` and `destinationFor`; BAD_REQUEST for times that are none
 */
function reschedule(
  ctx: Context,
  unit: Unit,
  present: ReadonlyResource<'backup_schedule'>,
  body: DatabaseSettings,
): void {
  const { cron_expression: times, destination_id, retention_count } = present.desired;
  const wanted = {
    cron_expression: body.backup_schedule ?? times,
    destination_id: body.backup_destination_id ?? destination_id,
    retention_count: body.backup_retention_count ?? retention_count,
  };
  if (isDeepStrictEqual(wanted, { cron_expression: times, destination_id, retention_count })) return;
  requireInProject(ctx.principal, 'PUT /backup-schedules/:id', ctx.view, present.desired.project_id);
  if (wanted.cron_expression !== times) requireTimes(wanted.cron_expression, ctx);
  if (wanted.destination_id !== destination_id) unit.require(destinationFor(ctx.view, wanted.destination_id));
  unit.change(present, (draft) => void Object.assign(draft, wanted));
}

/** The schedule of a database as a unit leaves it, which its answer shows. */
export function comingSchedule(
  view: TenantView,
  unit: Unit,
  id: string,
): ReadonlyResource<'backup_schedule'>['desired'] | null {
  const written = unit.changes().objects.map(({ it }) => it);
  const one = written.find((it) => isKind(it, 'backup_schedule') && it.desired.of.id === id);
  const [first] = view.by('backup_schedule', 'of', id);
  return (one !== undefined && isKind(one, 'backup_schedule') ? one : first)?.desired ?? null;
}

/**
 * Makes or changes the schedule of a mode that has one, and requires that there is none with the mode none. @throws ApiError
 */
function setSchedule(
  ctx: Context,
  unit: Unit,
  { it, changed, body }: { it: Stored; changed: Stored; body: DatabaseSettings },
): void {
  const mode = wantedMode(body);
  const [first] = ctx.view.by('backup_schedule', 'of', it.meta.id);
  if (mode === 'scheduled' && first === undefined) schedule(ctx, unit, changed, body);
  if (mode === 'scheduled' && first !== undefined) reschedule(ctx, unit, first, body);
  if (mode === 'none' && body.backup_mode === 'none' && it.desired.archive === undefined && first !== undefined)
    throw conflicting(`The database has backup schedule ${first.meta.id}: delete it, or pause it`);
}
