import type { DesiredOf } from '../../../store/kinds/kinds.ts';
import { goingOf } from '../../../store/new-drill.ts';
import type { ReadonlyResource } from '../../../store/resource.ts';
import type { RequestContext } from '../../endpoint/context.ts';
import { defineEndpoint } from '../../endpoint/endpoint.ts';
import { conflicting } from '../../ground/api-error.ts';
import { Database, DatabaseCreate, databases, DatabaseUpdate } from '../../resources/database.ts';
import { placeFrom } from '../../workloads/place.ts';
import { requirePort } from '../../workloads/ports.ts';
import { requireUnpooled } from '../../workloads/pooling.ts';
import { addDatabase, comingSchedule, judgeDatabase, writeDatabase } from '../../workloads/writing-database.ts';
import {
  deleteEndpoint,
  eventsEndpoint,
  Force,
  getEndpoint,
  listEndpoint,
  requireUnreferredOrForce,
  updateEndpoint,
} from '../resource-endpoints.ts';

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
    const unit = ctx.repo.begin();
    const it = addDatabase(ctx, unit, placeFrom(view, body), body);
    const schedule = comingSchedule(view, unit, it.meta.id);
    return ctx.commit(unit, () => databases.show(it, { ...databases.seen(it, view), schedule }));
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
    change: writeDatabase,
    seen: ({ view }, unit, changed) => ({
      ...databases.seen(changed, view),
      schedule: comingSchedule(view, unit, changed.meta.id),
    }),
    async check(ctx, unit, input) {
      judgeDatabase(ctx, unit, input);
      requireUnpooled(ctx.view, input);
    },
  },
);

export const deleteDatabase = deleteEndpoint(
  databases,
  {
    path: '/databases/:id',
    summary: 'Delete a database with its data; one that variables of applications refer to only with force=true',
  },
  {
    query: Force,
    async check({ view }, _, { it, query }) {
      if (query.force !== 'true') requireUnreferredOrForce(view, it);
    },
  },
);

export const startDatabase = verb('start', 'Let the database run', (draft, ctx, { meta: { id } }) => {
  const { restore } = goingOf(ctx.view, id);
  // what it has until then is an empty volume, which goes
  if (draft.run === 'stopped' && restore?.desired.is_new === true)
    throw conflicting(
      `Restore ${restore.meta.id} makes the database, which starts by itself with what is restored: wait for that, or cancel the restore`,
    );
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
