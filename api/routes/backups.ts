import { defined } from '../../store/defined.ts';
import { newBackup } from '../../store/new-backup.ts';
import { isDrill } from '../../store/new-drill.ts';
import { hasRestoreEnded } from '../../store/kinds/restore.ts';
import { hasBackupEnded } from '../../store/kinds/backup.ts';
import { z } from 'zod';
import type { BackedUp } from '../../store/new-backup.ts';
import type { TenantView } from '../../store/mirror.ts';
import type { ReadonlyResource } from '../../store/resource.ts';
import type { RequestContext } from '../endpoint/context.ts';
import { conflicting } from '../ground/api-error.ts';
import { defineEndpoint, defineList } from '../endpoint/endpoint.ts';
import { Backup, BackupCreate, backups, BackupUpdate } from '../resources/backup.ts';
import { pageOfResource } from './resource-endpoints.ts';
import { assign, readOnlyFields } from '../resources/object-fields.ts';
import { destinationFor, requireBackupRoom } from '../workloads/backing-up.ts';
import { deleteEndpoint, eventsEndpoint, getEndpoint, listEndpoint, listOfEndpoint } from './resource-endpoints.ts';

export const listBackups = listEndpoint(backups, {
  path: '/backups',
  summary: 'Backups that one may see, also of databases and volumes that are gone',
});

export const listBackupsOfDatabase = listOfEndpoint('database', backups, {
  path: '/databases/:id/backups',
  summary: 'Backups of a database',
});

export const getBackup = getEndpoint(backups, { path: '/backups/:id', summary: 'A backup, and how far it is' });

export const createBackup = defineEndpoint({
  method: 'POST',
  path: '/databases/:id/backups',
  summary: 'Back up a database now: what it holds goes to a bucket, while it goes on serving',
  on: ['database', 'id'],
  heavy: true,
  body: BackupCreate,
  response: Backup,
  status: 201,
  settle: backups.settle,
  handle: async (ctx, { it, body }) => {
    const { unit, made } = backUp(ctx, [{ kind: 'database', it }], body);
    return ctx.commit(unit, () => firstOf(made, ctx.view));
  },
});

export const listBackupsOfVolume = listOfEndpoint('volume', backups, {
  path: '/volumes/:id/backups',
  summary: 'Backups of a volume',
});

export const createVolumeBackup = defineEndpoint({
  method: 'POST',
  path: '/volumes/:id/backup',
  summary: 'Back up a volume now: its files go to a bucket, while they are used',
  on: ['volume', 'id'],
  heavy: true,
  body: BackupCreate,
  response: Backup,
  status: 201,
  settle: backups.settle,
  handle: async (ctx, { it, body }) => {
    const { unit, made } = backUp(ctx, [{ kind: 'volume', it }], body);
    return ctx.commit(unit, () => firstOf(made, ctx.view));
  },
});

export const listBackupsOfApplication = defineList({
  path: '/applications/:id/volume-backups',
  summary: 'Backups of the volumes that an application mounts',
  on: ['application', 'id'],
  query: backups.query,
  item: Backup,
  handle: async (ctx, { it, query }) => {
    const { view } = ctx;
    const volumes = new Set(it.desired.mounts.map(({ volume_id }) => volume_id));
    return pageOfResource(
      ctx,
      backups,
      [...volumes].flatMap((id) => view.by('backup', 'volume', id)),
      query,
    );
  },
});

export const createBackupsOfApplication = defineEndpoint({
  method: 'POST',
  path: '/applications/:id/volume-backups',
  summary: 'Back up all volumes that an application mounts now',
  on: ['application', 'id'],
  heavy: true,
  body: BackupCreate,
  response: z.array(Backup),
  status: 201,
  settle: backups.settle,
  handle: async (ctx, { it, body }) => {
    const ids = [...new Set(it.desired.mounts.map(({ volume_id }) => volume_id))];
    const volumes = ids.flatMap((id) => {
      const one = ctx.view.get('volume', id);
      return one === undefined ? [] : [{ kind: 'volume' as const, it: one }];
    });
    if (volumes.length === 0) throw conflicting('The application mounts no volume: there is nothing to back up');
    const { unit, made } = backUp(ctx, volumes, body);
    return ctx.commit(unit, () => made.map((one) => backups.answerOf(one, ctx.view)));
  },
});

function firstOf([made]: readonly ReadonlyResource<'backup'>[], view: TenantView): z.output<typeof Backup> {
  if (made === undefined) throw new Error('One backup was asked for, and none was made');
  return backups.answerOf(made, view);
}

/** A unit that makes a backup of each. @throws as `requireBackupRoom` and `destinationFor` */
function backUp(ctx: RequestContext, all: readonly BackedUp[], body: z.output<typeof BackupCreate>) {
  const { view } = ctx;
  for (const of of all) requireBackupRoom(view, of);
  const schedules = all.flatMap(({ it }) => view.by('backup_schedule', 'of', it.meta.id));
  const destination = destinationFor(view, body.destination_id, schedules);
  const unit = ctx.repo.begin();
  unit.require(destination);
  const made = all.map((of) => {
    unit.require(of.it);
    return unit.create(
      'backup',
      ctx.random.id(),
      {
        ...newBackup(of, destination, ctx.clock.now()),
        requested_by: ctx.principal.user.meta.id,
        ...defined({ expires_at: body.expires_at ?? undefined }),
      },
      defined({ labels: body.labels }),
    );
  });
  return { unit, made };
}

export const updateBackup = defineEndpoint({
  method: 'PUT',
  path: '/backups/:id',
  summary: 'Keep a backup whatever its schedule says, or change when its time is over',
  on: ['backup', 'id'],
  body: BackupUpdate,
  readOnly: readOnlyFields(Backup, BackupUpdate),
  response: Backup,
  settle: backups.settle,
  handle: async (ctx, { it, body }) => {
    const unit = ctx.repo.begin();
    const changed = unit.change(it, (draft) => {
      draft.pinned = body.pinned ?? draft.pinned;
      assign(draft, 'expires_at', body.expires_at);
    });
    if (body.labels !== undefined) unit.label(it, body.labels);
    return ctx.commit(unit, () => backups.answerOf(changed, ctx.view));
  },
});

export const cancelBackup = defineEndpoint({
  method: 'POST',
  path: '/backups/:id/cancel',
  summary: 'End a backup that has not ended, and remove what was sent of it',
  on: ['backup', 'id'],
  response: Backup,
  settle: backups.settle,
  handle: async (ctx, { it }) => {
    const unit = ctx.repo.begin();
    const isOver = hasBackupEnded(it.observed?.phase);
    const next = isOver ? it : unit.change(it, (draft) => void (draft.cancel_requested = true));
    return ctx.commit(unit, () => backups.answerOf(next, ctx.view));
  },
});

export const deleteBackup = deleteEndpoint(
  backups,
  { path: '/backups/:id', summary: 'Delete a backup with what it has in its bucket; not while a restore reads it' },
  {
    async check({ view }, _, { it }) {
      // a drill ends with its backup
      const reading = view
        .by('restore', 'backup', it.meta.id)
        .find((one) => !hasRestoreEnded(one.observed?.phase) && !isDrill(one));
      if (reading === undefined) return;
      throw conflicting(`Restore ${reading.meta.id} reads the backup: wait for its end, or cancel it`);
    },
  },
);

export const listBackupEvents = eventsEndpoint(backups, {
  path: '/backups/:id/events',
  summary: 'What happened to a backup, newest first',
});
