import { hasRestoreEnded } from '../../store/kinds/restore.ts';
import type { ReadonlyResource } from '../../store/resource.ts';
import type { RequestContext } from '../endpoint/context.ts';
import { defineEndpoint } from '../endpoint/endpoint.ts';
import { wordOf } from '../endpoint/subject.ts';
import { ApiError, badField } from '../ground/api-error.ts';
import {
  Import,
  Restore,
  RestoreFromPath,
  RestoreInPlace,
  RestoreOf,
  restores,
  restoreStatus,
} from '../resources/restore.ts';
import { importPath, importUpload, importUrl } from '../workloads/importing.ts';
import { referred } from '../workloads/references.ts';
import { forTrial, inPlace, intoNew } from '../workloads/restoring.ts';
import { eventsEndpoint, getEndpoint, listEndpoint } from './resource-endpoints.ts';

type Backup = ReadonlyResource<'backup'>;
type Database = ReadonlyResource<'database'>;

export const listRestores = listEndpoint(restores, { path: '/restores', summary: 'Restores that one may see' });

export const getRestore = getEndpoint(restores, { path: '/restores/:id', summary: 'A restore, and how far it is' });

export const restoreDatabase = defineEndpoint({
  method: 'POST',
  path: '/databases/:id/restore',
  summary:
    'Bring a backup back into a database: beside what it serves, which it goes on to serve until all was read and checked',
  on: ['database', 'id'],
  heavy: true,
  body: RestoreInPlace,
  response: Restore,
  status: 201,
  settle: restores.settle,
  handle: async (ctx, { it, body }) => inPlace(ctx, backupIn(ctx, body.backup_id, it.desired.project_id), it),
});

export const restoreBackup = defineEndpoint({
  method: 'POST',
  path: '/backups/database/:id/restore',
  summary: 'Bring a backup back: into the database that it is of, into another one, or into one that is made for it',
  on: ['backup', 'id'],
  heavy: true,
  body: RestoreOf,
  response: Restore,
  status: 201,
  settle: restores.settle,
  handle: async (ctx, { it, body }) => {
    const { database_id: id, new_name: name } = body;
    if (name !== undefined && name !== null) {
      if (id !== undefined && id !== null)
        throw badField('new_name', 'conflict', 'Send database_id or new_name: a backup goes into one database');
      return intoNew(ctx, it, name);
    }
    const database = referred(ctx.view, 'database', id ?? it.desired.of.id, 'database_id');
    requireSameProject(database, it.desired.project_id, 'database_id');
    return inPlace(ctx, it, database);
  },
});

export const verifyBackup = defineEndpoint({
  method: 'POST',
  path: '/backups/:id/verify',
  summary: 'Restore a backup for trial: beside what is there, read to its end, and removed again',
  on: ['backup', 'id'],
  heavy: true,
  response: Restore,
  status: 201,
  settle: restores.settle,
  handle: async (ctx, { it }) => forTrial(ctx, it),
});

/** Files that are larger are put on the server. */
const mostUploadedBytes = 256 * 1024 ** 3;

export const importDatabase = defineEndpoint({
  method: 'POST',
  path: '/databases/:id/import',
  summary:
    'Import a dump that was made elsewhere, by its file or its address: beside what the database serves until all was read and checked',
  on: ['database', 'id'],
  heavy: true,
  streamed: { maxBytes: mostUploadedBytes },
  body: Import,
  response: Restore,
  status: 201,
  waitsForAgent: true,
  settle: restores.settle,
  handle: async (ctx, { it, body: { url, file } }) => {
    if (file !== undefined) return importUpload(ctx, it, file);
    if (url !== undefined) return importUrl(ctx, it, url);
    throw badField('url', 'required', 'Must be the address of the dump, unless its file is sent as a form');
  },
});

export const restoreFromPath = defineEndpoint({
  method: 'POST',
  path: '/databases/:id/restore-from-path',
  summary: 'Import a dump that is a file below the folder for imports of the server',
  on: ['database', 'id'],
  heavy: true,
  body: RestoreFromPath,
  response: Restore,
  status: 201,
  waitsForAgent: true,
  settle: restores.settle,
  handle: async (ctx, { it, body }) => importPath(ctx, it, body.path),
});

export const cancelRestore = defineEndpoint({
  method: 'POST',
  path: '/restores/:id/cancel',
  summary: 'End a restore that has not ended; the database serves what it served before',
  on: ['restore', 'id'],
  response: Restore,
  settle: restores.settle,
  handle: async (ctx, { it }) => {
    const unit = ctx.repo.begin();
    const isOver = hasRestoreEnded(restoreStatus(it) === 'deleting' ? undefined : it.observed?.phase);
    const next = isOver ? it : unit.change(it, (draft) => void (draft.cancel_requested = true));
    return ctx.commit(unit, () => restores.answerOf(next, ctx.view));
  },
});

export const listRestoreEvents = eventsEndpoint(restores, {
  path: '/restores/:id/events',
  summary: 'What happened to a restore, newest first',
});

/** The backup that a field names, of that project. @throws ApiError NOT_FOUND, CONFLICT */
function backupIn({ view }: RequestContext, id: string, project: string): Backup {
  const it = referred(view, 'backup', id, 'backup_id');
  requireSameProject(it, project, 'backup_id');
  return it;
}

/** @throws ApiError NOT_FOUND for an object of another project, which the caller may not know of */
function requireSameProject(it: Backup | Database, project: string, field: string): void {
  if (it.desired.project_id === project) return;
  const message = `${wordOf(it.meta.kind)} not found in this project`;
  throw new ApiError('NOT_FOUND', message, { details: [{ field, reason: 'not_found', message }] });
}
