import { z } from 'zod';
import type { TenantView } from '../../../store/mirror.ts';
import { goingOf, isDrill } from '../../../store/new-drill.ts';
import { databaseWindows } from '../../../store/recovery-window.ts';
import { retention } from '../../../store/retention.ts';
import { isStaying } from '../../../store/resource.ts';
import type { ReadonlyResource } from '../../../store/resource.ts';
import type { RequestContext } from '../../endpoint/context.ts';
import { defineEndpoint } from '../../endpoint/endpoint.ts';
import { ApiError, badField, conflicting } from '../../ground/api-error.ts';
import { database } from '../../../store/kinds/database.ts';
import { Database, databases, restoringBy } from '../../resources/database.ts';
import { Reference } from '../../resources/object-fields.ts';
import { Restore, restores } from '../../resources/restore.ts';
import { requireRecovery } from '../../workloads/recovering.ts';
import { referred } from '../../workloads/references.ts';
import { inPlace, intoNew } from '../../workloads/restoring.ts';

const Span = z.object({ earliest_time: z.string(), latest_time: z.string() });

export const getRecoveryWindow = defineEndpoint({
  method: 'GET',
  path: '/databases/:id/recovery-window',
  summary: 'The instants that a database can be brought to, and what of its log is missing',
  on: ['database', 'id'],
  response: z
    .object({
      available: z.boolean(),
      earliest_time: z.string().nullable().meta({ description: 'Of the window that goes on, or of the last one' }),
      latest_time: z.string().nullable(),
      last_wal_at: z.string().nullable().meta({ description: 'When its bucket last took a part of its log' }),
      gaps: z
        .array(z.object({ from: z.string(), to: z.string() }))
        .meta({ description: 'Between the windows: no instant within can be recovered to' }),
      windows: z.array(Span).meta({ description: 'All of them, the earliest first' }),
    })
    .meta({ id: 'RecoveryWindow' }),
  handle: async ({ view }, { it }) => {
    const windows = databaseWindows(view, it.meta.id);
    const spans = windows.map(({ from, to }) => ({ earliest_time: iso(from), latest_time: iso(to) }));
    const last = spans.at(-1);
    const sent = view
      .by('wal_archive', 'database', it.meta.id)
      .flatMap(({ observed }) => observed?.sent_at ?? [])
      .toSorted();
    return {
      available: last !== undefined,
      earliest_time: last?.earliest_time ?? null,
      latest_time: last?.latest_time ?? null,
      last_wal_at: sent.at(-1) ?? null,
      gaps: spans.slice(1).map(({ earliest_time: to }, index) => ({ from: spans[index]?.latest_time ?? to, to })),
      windows: spans,
    };
  },
});

function iso(ms: number): string {
  return new Date(ms).toISOString();
}

const TargetTime = z.iso
  .datetime({ offset: true })
  .meta({ description: 'Within the recovery window; all that was committed until then is there' });

export const recoverDatabase = defineEndpoint({
  method: 'POST',
  path: '/databases/:id/pitr',
  summary:
    'Bring a copy of a database to an instant, beside what it serves; POST /databases/ID/switch lets it serve that',
  on: ['database', 'id'],
  heavy: true,
  body: z.strictObject({ target_time: TargetTime }),
  response: Restore,
  status: 201,
  settle: restores.settle,
  handle: async (ctx, { it, body }) => {
    const { backup, recovery } = requireRecovery(ctx.view, it, body.target_time, true);
    return inPlace(ctx, backup, it, recovery);
  },
});

export const cloneDatabaseAt = defineEndpoint({
  method: 'POST',
  path: '/databases/:id/pitr-clone',
  summary: 'Make a database of what a database held at an instant',
  on: ['database', 'id'],
  heavy: true,
  body: z.strictObject({ target_time: TargetTime, new_name: database.desired.shape.name }),
  response: Restore,
  status: 201,
  settle: restores.settle,
  handle: async (ctx, { it, body }) => {
    const { backup, recovery } = requireRecovery(ctx.view, it, body.target_time, false);
    return intoNew(ctx, backup, body.new_name, recovery);
  },
});

/** A database is switched once nothing of it waits to be switched to, and it serves that. */
const settleSwitched: typeof databases.settle = databases.settle && {
  ...databases.settle,
  isSettled(view, id) {
    const { restore } = goingOf(view, id);
    const isUnderWay = restore?.desired.switch_requested === true || restore?.observed?.phase === 'switching';
    return !isUnderWay && databases.settle?.isSettled(view, id) === true;
  },
};

export const switchDatabase = defineEndpoint({
  method: 'POST',
  path: '/databases/:id/switch',
  summary:
    'Let a database serve what was recovered for it, or, with volume_id, a former volume of it; what it served before stays for a week',
  on: ['database', 'id'],
  heavy: true,
  body: z
    .strictObject({
      target_database_id: Reference.nullish().meta({
        description: 'The database itself, which is also what absent means',
      }),
      volume_id: Reference.nullish().meta({ description: 'A former volume of the database: the way back' }),
    })
    .default({}),
  response: Database,
  settle: settleSwitched,
  handle: async (ctx, { it, body }) => {
    const { view } = ctx;
    requireItself(ctx, it, body.target_database_id);
    const unit = ctx.repo.begin();
    if (body.volume_id === it.desired.data_volume_id) {
      unit.require(it);
      return ctx.commit(unit, () => databases.answerOf(it, view));
    }
    const former = formerVolume(ctx, it, body.volume_id);
    const going = goingOf(view, it.meta.id).restore;
    if (former !== undefined) {
      if (going !== undefined)
        throw conflicting(`Restore ${going.meta.id} of the database has not ended: wait for it, or cancel it`);
      const next = unit.change(it, (draft) => {
        draft.data_volume_id = former.back.meta.id;
        if (draft.archive !== undefined) draft.archive.id = ctx.random.id();
      });
      const end = new Date(ctx.clock.now().getTime() + retention.formerVolumeKeepMs).toISOString();
      if (former.present !== undefined) unit.change(former.present, (draft) => void (draft.expires_at = end));
      unit.change(former.back, (draft) => void delete draft.expires_at);
      return ctx.commit(unit, () => databases.answerOf(next, view));
    }
    if (going?.observed?.phase !== 'ready_to_switch')
      throw conflicting(
        going === undefined
          ? 'Nothing was recovered for the database: begin with POST /databases/ID/pitr'
          : `Restore ${going.meta.id} is not ready to be switched to: wait until it is`,
      );
    unit.require(it);
    unit.change(going, (draft) => void (draft.switch_requested = true));
    return ctx.commit(unit, () => databases.show(it, { ...databases.seen(it, view), restoring: restoringBy(going) }));
  },
});

type Stored = ReadonlyResource<'database'>;

/** @throws ApiError NOT_FOUND, BAD_REQUEST for another database */
function requireItself({ view }: RequestContext, it: Stored, id: string | null | undefined): void {
  if (id === undefined || id === null || id === it.meta.id) return;
  const other = referred(view, 'database', id, 'target_database_id');
  if (other.desired.project_id !== it.desired.project_id) throw notHere('target_database_id', 'Database');
  throw badField(
    'target_database_id',
    'unsupported',
    'Must be the database itself: what it serves is changed, and its name and its address stay',
  );
}

/** The former volume that a field names, and the present one, unless that is gone. @throws ApiError NOT_FOUND, CONFLICT */
function formerVolume({ view }: RequestContext, it: Stored, id: string | null | undefined) {
  if (id === undefined || id === null) return undefined;
  const back = referred(view, 'volume', id, 'volume_id');
  if (back.desired.database_id !== it.meta.id) throw notHere('volume_id', 'Volume');
  const making = view.by('restore', 'volume', back.meta.id).find((one) => isDrill(one) || !mayServe(one, view));
  if (making !== undefined) throw conflicting(`Restore ${making.meta.id} makes this volume: it is no former one`);
  // what the database serves no more has an end: others never had its data
  if (back.desired.expires_at === undefined)
    throw conflicting('The database never served from this volume: name a former one, which has expires_at');
  const present = view.get('volume', it.desired.data_volume_id);
  return { back, present: isStaying(present) ? present : undefined };
}

/**
 * The database was given what was restored, whatever became of that; or was to be given what was held, of which nothing uses
 * the volume any more.
 */
function mayServe({ meta, desired, observed }: ReadonlyResource<'restore'>, view: TenantView): boolean {
  if (observed?.phase !== 'failed') return observed?.phase === 'completed';
  const wasWanted = observed.held_since !== undefined && desired.switch_requested;
  return observed.goes_back === true || (wasWanted && view.by('assignment', 'owner', meta.id).length === 0);
}

function notHere(field: string, word: string): ApiError {
  const message = `${word} not found for this database`;
  return new ApiError('NOT_FOUND', message, { details: [{ field, reason: 'not_found', message }] });
}
