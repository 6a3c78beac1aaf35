import { defined } from '../../../store/defined.ts';
import { volumeOf } from '../../../store/new-database-volume.ts';
import type { DesiredOf } from '../../../store/kinds/kinds.ts';
import type { TenantView } from '../../../store/mirror.ts';
import type { ReadonlyResource } from '../../../store/resource.ts';
import { badField, conflicting } from '../../ground/api-error.ts';
import type { RequestContext } from '../../endpoint/context.ts';
import { defineEndpoint } from '../../endpoint/endpoint.ts';
import type { DatabaseSettings } from '../../resources/database.ts';
import type { Unit } from '../../../store/unit-of-work.ts';
import { Database, DatabaseCreate, databases, DatabaseUpdate } from '../../resources/database.ts';
import { assign } from '../../resources/object-fields.ts';
import { changedParameters, requireMemory } from '../../workloads/database-parameters.ts';
import { applicationsReferringTo, functionsReferringTo } from '../../workloads/env-references.ts';
import { requireTimes, setArchive, wantedMode } from '../../workloads/archiving.ts';
import { destinationFor, requireBackups } from '../../workloads/backing-up.ts';
import { newDatabase, requireDatabaseRoom } from '../../workloads/new-database.ts';
import { enterPlace, placeFrom } from '../../workloads/place.ts';
import { requirePort } from '../../workloads/ports.ts';
import { requireVolumeRoom } from '../../workloads/new-application.ts';
import { deleteEndpoint, eventsEndpoint, getEndpoint, listEndpoint, updateEndpoint } from '../resource-endpoints.ts';

export const listDatabases = listEndpoint(databases, { path: '/databases', summary: 'Databases that one may see' });

export const getDatabase = getEndpoint(databases, {
  path: '/databases/:id',
  summary: 'A database, without its password',
});

export const createDatabase = defineEndpoint({
  method: 'POST',
  path: '/databases',
  summary: 'Create a database with an empty volume of its own, and start it',
  projectFrom: 'body.project_id',
  body: DatabaseCreate,
  response: Database,
  status: 201,
  settle: databases.settle,
  handle: async (ctx, { body }) => {
    const { view } = ctx;
    const place = placeFrom(view, body);
    const { project_id: projectId, server_id: serverId } = place.fields;
    requireDatabaseRoom(view, projectId, { adding: 1 });
    requireVolumeRoom(view, projectId, { adding: 1 });
    requirePort(ctx, { projectId, serverId, port: body.exposed_port ?? undefined });
    const volumeId = ctx.random.id();
    const { id, desired } = newDatabase(ctx, place.fields, body, volumeId);
    setArchive(desired, body, ctx);
    const unit = ctx.repo.begin();
    enterPlace(unit, place);
    holdDestination(ctx.view, unit, desired);
    const it = unit.create('database', id, desired, defined({ labels: body.labels }));
    unit.create('volume', volumeId, volumeOf(id, desired));
    if (wantedMode(body) === 'scheduled') schedule(ctx, unit, it, body);
    return ctx.commit(unit, () => databases.answerOf(it, view));
  },
});

export const updateDatabase = updateEndpoint(
  databases,
  {
    path: '/databases/:id',
    summary:
      'Change the name of a database to which no variable refers, its limits or parameters; other ones and another port restart it, its data stays',
  },
  {
    body: DatabaseUpdate,
    change(draft, body, ctx) {
      assign(draft, 'display_name', body.display_name);
      assign(draft, 'memory_limit', body.memory_limit);
      assign(draft, 'cpu_limit', body.cpu_limit);
      assign(draft, 'exposed_port', body.exposed_port);
      setArchive(draft, body, ctx);
      if (body.parameters === undefined) return;
      assign(draft, 'parameters', changedParameters(draft.type, draft.parameters, body.parameters) ?? null);
    },
    async check(ctx, unit, { it, changed, body }) {
      const { desired } = changed;
      setSchedule(ctx, unit, { it, changed, body });
      if (desired.archive?.destination_id !== it.desired.archive?.destination_id)
        holdDestination(ctx.view, unit, desired);
      if (desired.name !== it.desired.name) requireUnreferred(ctx.view, it);
      if (desired.parameters !== it.desired.parameters || desired.memory_limit !== it.desired.memory_limit)
        requireMemory(desired);
      if (desired.exposed_port === it.desired.exposed_port) return;
      const { project_id: projectId, server_id: serverId, exposed_port: port } = desired;
      requirePort(ctx, { id: it.meta.id, projectId, serverId, port });
    },
  },
);

/** Guards that the destination of the archive stays. */
function holdDestination(view: TenantView, unit: Unit, { archive }: Pick<Stored['desired'], 'archive'>): void {
  const destination = archive && view.get('backup_destination', archive.destination_id);
  if (destination !== undefined) unit.require(destination);
}

type Context = Pick<RequestContext, 'view' | 'random' | 'clock'>;
type Stored = ReadonlyResource<'database'>;

/** Makes the schedule that a mode asks for. @throws ApiError BAD_REQUEST without times */
function schedule(
  ctx: Context,
  unit: Unit,
  { meta, desired }: Pick<Stored, 'meta' | 'desired'>,
  body: DatabaseSettings,
): void {
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

/** Makes the schedule of a mode that has one, and requires that there is none with the mode none. @throws ApiError */
function setSchedule(
  ctx: Context,
  unit: Unit,
  { it, changed, body }: { it: Stored; changed: Stored; body: DatabaseSettings },
): void {
  const mode = wantedMode(body);
  const [first] = ctx.view.by('backup_schedule', 'of', it.meta.id);
  if (mode === 'scheduled' && first === undefined) schedule(ctx, unit, changed, body);
  if (mode === 'none' && body.backup_mode === 'none' && it.desired.archive === undefined && first !== undefined)
    throw conflicting(`The database has backup schedule ${first.meta.id}: delete it, or pause it`);
}

export const deleteDatabase = deleteEndpoint(
  databases,
  {
    path: '/databases/:id',
    summary: 'Delete a database with its data; not while variables of applications refer to it',
  },
  {
    async check({ view }, _, { it }) {
      requireUnreferred(view, it);
    },
  },
);

/** @throws ApiError CONFLICT naming the applications and functions that refer to the database by its name */
function requireUnreferred(view: TenantView, it: ReadonlyResource<'database'>): void {
  const users = [...applicationsReferringTo(view, it), ...functionsReferringTo(view, it)];
  const names = users.map(({ desired }) => desired.name);
  if (names.length === 0) return;
  const some = names.slice(0, 10).join(', ') + (names.length > 10 ? ` and ${names.length - 10} more` : '');
  throw conflicting(`Variables of ${some} refer to the database: change them first`);
}

export const startDatabase = verb('start', 'Let the database run', (draft, ctx, { meta: { id } }) => {
  // a port of a database that is stopped may be taken meanwhile
  const { project_id: projectId, server_id: serverId, exposed_port: port } = draft;
  requirePort(ctx, { id, projectId, serverId, port });
  draft.run = 'running';
});

export const stopDatabase = verb('stop', 'Stop the database by its own graceful end; its data stays', (draft) => {
  draft.run = 'stopped';
});

export const restartDatabase = verb('restart', 'Stop the database, and start it again', (draft, ctx) => {
  draft.restart_token = ctx.random.id();
});

type Draft = DesiredOf<'database'>;

/** A verb that changes the desired state of a database. */
function verb(
  name: 'start' | 'stop' | 'restart',
  summary: string,
  change: (draft: Draft, ctx: RequestContext, it: ReadonlyResource<'database'>) => void,
) {
  return defineEndpoint({
    method: 'POST',
    path: `/databases/:id/${name}`,
    summary,
    on: ['database', 'id'],
    heavy: true,
    response: Database,
    settle: databases.settle,
    handle: async (ctx, { it }: { it: ReadonlyResource<'database'> }) => {
      const unit = ctx.repo.begin();
      const next = unit.change(it, (draft) => change(draft, ctx, it));
      return ctx.commit(unit, () => databases.answerOf(next, ctx.view));
    },
  });
}

export const listDatabaseEvents = eventsEndpoint(databases, {
  path: '/databases/:id/events',
  summary: 'What happened to a database, newest first',
});
