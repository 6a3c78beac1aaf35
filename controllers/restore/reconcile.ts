import { taskRow } from '../../agent-protocol/task-types.ts';
import { assignmentId } from '../../store/kinds/assignment-id.ts';
import type { DesiredOf } from '../../store/kinds/kinds.ts';
import { uuidv5 } from '../../store/uuid.ts';
import { hasRestoreEnded } from '../../store/kinds/restore.ts';
import { hasRunEnded } from '../../store/kinds/run.ts';
import type { TenantView } from '../../store/mirror.ts';
import { isKind, isStaying } from '../../store/resource.ts';
import { retention } from '../../store/retention.ts';
import { servingInstance } from '../database/world.ts';
import { perform } from '../rollout/actions.ts';
import type { Because, Context, Controller, Next, Verdict } from '../runtime/controller.ts';
import { upToDate } from '../runtime/up-to-date.ts';
import { onChange, onChild } from '../runtime/wakes.ts';
import { hasBegun, patienceMs, taskOf, taskState } from '../task/task.ts';
import { plan, sideRole } from './plan.ts';
import { isDrill } from '../../store/new-drill.ts';
import { volumeOf } from '../../store/new-database-volume.ts';
import { besideVolume, formerName } from '../../store/volume-beside.ts';
import {
  attemptOf,
  canMount,
  conditionsOf,
  observedAfter,
  observedOf,
  patience,
  provenWords,
  stepOf,
  volumeIdOf,
  volumeOfAttempt,
} from './states.ts';
import type { Observed, Restore, Step, World } from './states.ts';

/**
 * Brings a backup into a new volume beside the one that has the data of a database or a volume, checks it, and changes the
 * pointer.
 */
export const restoreController: Controller<'restore'> = {
  name: 'restore',
  kind: 'restore',
  reads: [
    'application',
    'assignment',
    'backup',
    'backup_destination',
    'database',
    'function',
    'run',
    'server',
    'volume',
    'wal_archive',
  ],
  children: ['application', 'assignment', 'database', 'function', 'volume'],
  notifies: ['restore_completed', 'restore_failed'],
  wakes: [
    onChild('assignment', ({ meta }) => meta.owners.flatMap((it) => (it.kind === 'restore' ? [it.id] : []))),
    onChild('volume', ({ meta }, view) => [...ofVolume(view, meta.id), ...unfinished(view, meta.id)]),
    onChange(
      'assignment',
      // a report of an earlier generation tells nothing of the present one
      (it) => [upToDate(it)?.phase, upToDate(it)?.ready],
      ({ desired }, view) => (desired.workload_kind === 'database' ? unfinished(view, desired.workload_id) : []),
    ),
    onChange(
      'database',
      ({ meta, desired }) => [meta.deletionRequestedAt, desired.data_volume_id, desired.run],
      ({ meta }, view) => unfinished(view, meta.id),
    ),
    onChange(
      'backup',
      ({ meta }) => meta.deletionRequestedAt,
      ({ meta }, view) =>
        view
          .by('restore', 'backup', meta.id)
          .filter(({ observed }) => !hasRestoreEnded(observed?.phase))
          .map((it) => it.meta.id),
    ),
    onChange(
      'run',
      ({ observed }) => hasRunEnded(observed?.phase),
      ({ desired }, view) =>
        (view.get('application', desired.application_id)?.desired.mounts ?? []).flatMap(({ volume_id }) =>
          unfinished(view, volume_id),
        ),
    ),
    onChange(
      'wal_archive',
      ({ meta, observed }) => [meta.deletionRequestedAt, observed?.checked_at, observed?.checked_for],
      ({ meta }, view) => view.by('restore', 'archive', meta.id).map((it) => it.meta.id),
    ),
    onChange(
      'server',
      ({ meta, observed }) => [meta.deletionRequestedAt, observed?.phase],
      ({ meta }, view) =>
        view
          .by('restore', 'server', meta.id)
          .filter(({ observed }) => !hasRestoreEnded(observed?.phase))
          .map((it) => it.meta.id),
    ),
  ],
  async reconcile(it, ctx) {
    const world = readWorld(it, ctx);
    const step = stepOf(world);
    const now = observedAfter(world, step);
    // what is to be undone is known before it is done
    if (step.do !== 'switch' || it.observed?.former_volume_id !== undefined) await carryOut(world, step, ctx);
    await perform(ctx, plan(world, step));
    await announce(world, now, ctx);
    return verdict(world, step, now);
  },
  async finalize(it, ctx) {
    const world = readWorld(it, ctx);
    const step: Step = { do: 'tidy' };
    if (it.observed?.phase === 'switching') await endFormer(world, ctx);
    await carryOut(world, step, ctx);
    await perform(ctx, plan(world, step));
    const isEmpty = world.task === undefined && world.side === undefined && world.recovery === undefined;
    return { ...verdict(world, step, observedOf(it)), released: isEmpty };
  },
};

function readWorld(it: Restore, ctx: Context): World {
  const { view, clock } = ctx;
  const { backup_id, of, place } = it.desired;
  const backup = view.get('backup', backup_id ?? '');
  const database = of.kind === 'database' ? view.get('database', of.id) : undefined;
  const { bind } = it.desired;
  const bound = (kind: 'application' | 'function'): string =>
    bind !== undefined && (bind.workload_kind ?? 'application') === kind ? bind.application_id : '';
  const mounting =
    bind === undefined
      ? view.by('application', 'volume', of.id)
      : [view.get('application', bound('application'))].filter((one) => one !== undefined);
  const command = commandOn(it, mounting, view);
  const turn = turnOf(it, command, view);
  const server = view.get('server', place.server_id);
  return {
    restore: it,
    backup,
    database,
    destination: backup && view.get('backup_destination', backup.desired.destination_id),
    target: of.kind === 'volume' ? view.get('volume', of.id) : undefined,
    mounting,
    functions:
      bind === undefined
        ? view.by('function', 'volume', of.id)
        : [view.get('function', bound('function'))].filter((one) => one !== undefined),
    volume: view.get('volume', volumeIdOf(it)),
    former: ownFormer(it, view),
    isFormer: isFormerOfAnother(volumeIdOf(it), it, view),
    server,
    side: view.get('assignment', assignmentId.task(it.meta.id, sideRole)),
    serving: database && servingInstance(database, view),
    task: taskOf(view, it.meta.id, 'restore'),
    archive: view.get('wal_archive', it.desired.recovery?.archive_id ?? ''),
    recovery: taskOf(view, it.meta.id, 'recovery'),
    turn,
    command,
    leftMs: leftMs(it, turn, server, ctx),
    now: clock.now(),
  };
}

/** A command that may write to the volume that is about to get other data: what it writes from then on would be given up. */
function commandOn({ desired }: Restore, mounting: World['mounting'], view: TenantView): World['command'] {
  if (desired.of.kind !== 'volume' || desired.is_new || isDrill({ desired })) return undefined;
  const writing = mounting.filter((app) =>
    app.desired.mounts.some((it) => it.volume_id === desired.of.id && !it.read_only),
  );
  return writing
    .flatMap(({ meta }) => view.by('run', 'application', meta.id))
    .find((it) => !it.desired.read_only_volumes && !hasRunEnded(it.observed?.phase));
}

/** For whose end it waits. */
function turnOf(it: Restore, command: World['command'], view: TenantView): World['turn'] {
  if (isDrill(it) && isBehind(it, view)) return 'of restores';
  const isExchanged = view.get('volume', it.desired.of.id)?.desired.data_id === volumeIdOf(it);
  if (it.observed?.phase === 'switching') return command !== undefined && !isExchanged ? 'of command' : undefined;
  if (it.observed?.phase !== 'restoring') return undefined;
  const task = taskOf(view, it.meta.id, 'restore');
  // its server takes up what it has no turn for yet
  if (!hasBegun(task)) return 'on server';
  return command !== undefined && taskState('restore', task).outcome === 'succeeded' ? 'of command' : undefined;
}

/**
 * A restore for use goes on there, or another drill of the same server has begun and is not gone yet, or neither has begun and
 * that one was asked for before.
 */
function isBehind(it: Restore, view: TenantView): boolean {
  if (it.observed?.started_at !== undefined || hasRestoreEnded(it.observed?.phase)) return false;
  return view
    .by('restore', 'server', it.desired.place.server_id)
    .filter((other) => other.meta.id !== it.meta.id)
    .some((other) => {
      const { phase, started_at: begun } = other.observed ?? {};
      // what is held for somebody may be so for a week
      if (!isDrill(other)) return !hasRestoreEnded(phase) && phase !== 'ready_to_switch';
      if (!hasRestoreEnded(phase)) return begun !== undefined || isBefore(other, it);
      return begun !== undefined && view.get('volume', volumeIdOf(other)) !== undefined;
    });
}

function isBefore(one: Restore, other: Restore): boolean {
  const [first, second] = [one.desired.requested_at, other.desired.requested_at];
  return first === second ? one.meta.id < other.meta.id : first < second;
}

/** Milliseconds that a restore may spend in each of its stages. */
const stages = {
  turn: patience.turnMs,
  queued: patience.turnMs,
  quiescing: patience.quietMs,
  preparing: patience.prepareMs,
  restoring: patienceMs(taskRow('restore').deadlineSeconds * 1000),
  verifying: patienceMs(taskRow('recovery').deadlineSeconds * 1000),
  holding: patience.holdMs,
  stopping: patience.switchMs,
  switching: patience.switchMs,
} as const;

/** The stage in which it waits for others. */
const waits = { 'of restores': 'turn', 'on server': 'queued', 'of command': 'quiescing' } as const;

/**
 * Milliseconds that it may still be in the stage that it is in. The time for the switch begins anew once its server answers
 * again: of what users may have written to, nothing is given up by time alone.
 */
function leftMs(it: Restore, turn: World['turn'], server: World['server'], ctx: Context): number {
  const { observed } = it;
  const stage = turn === undefined ? stageOf(observed) : waits[turn];
  const isUnknown = (stage === 'switching' || stage === 'stopping') && server?.observed?.phase === 'offline';
  const spent = (Object.keys(stages) as (keyof typeof stages)[]).map((name) =>
    ctx.since(name, name === stage && !isUnknown),
  );
  return (stage === undefined ? 0 : stages[stage]) - Math.max(...spent, stage === 'holding' ? heldMs(it, ctx) : 0);
}

/** For how long it is held: a week is longer than most leaders lead. A clock that is ahead, or was behind, ends none at once. */
function heldMs({ desired, observed }: Restore, ctx: Context): number {
  const since = Math.max(Date.parse(observed?.held_since ?? ''), Date.parse(desired.requested_at));
  return Number.isNaN(since) ? 0 : ctx.expiryTime() - since;
}

function stageOf(observed: Restore['observed']): keyof typeof stages | undefined {
  const { phase = 'pending', former_volume_id: former } = observed ?? {};
  if (hasRestoreEnded(phase)) return undefined;
  if (phase === 'switching') return former === undefined ? 'stopping' : 'switching';
  if (phase === 'ready_to_switch') return 'holding';
  return phase === 'restoring' || phase === 'verifying' ? phase : 'preparing';
}

/** The writes of a step that are no instances and no tasks. */
async function carryOut(world: World, step: Step, ctx: Context): Promise<void> {
  const { restore } = world;
  switch (step.do) {
    case 'switch':
      return restore.desired.of.kind === 'volume' ? exchange(world, ctx) : change(world, ctx);
    case 'fail':
      return step.goesBack === true ? goBack(world, ctx) : undefined;
    case 'complete':
      return endFormer(world, ctx);
    case 'make':
      return make(world, ctx);
    case 'clear':
    case 'tidy':
      return removeVolumes(world, step.do === 'clear', ctx);
    default:
  }
}

/** Makes the new volume of another attempt. */
async function make({ restore, database, target }: World, ctx: Context): Promise<void> {
  const of = database ?? target;
  if (of === undefined) return;
  const id = volumeIdOf(restore);
  const desired =
    database === undefined && target !== undefined
      ? besideVolume(target.desired, id)
      : database && volumeOf(database.meta.id, database.desired);
  if (desired === undefined) return;
  await ctx.transact((unit) => {
    unit.require(of);
    unit.create('volume', id, desired);
  });
}

/**
 * Gives a volume the data that was restored, and the new volume the former data for a while: also that of a volume that was
 * lost, since an operator may just have put it back. A volume that was made for the restore is mounted.
 */
async function exchange({ restore, target, volume, mounting, functions }: World, ctx: Context): Promise<void> {
  if (target === undefined || volume === undefined) return;
  const { bind, is_new: isNew } = restore.desired;
  const isExchanged = target.desired.data_id === volume.meta.id;
  await ctx.transact(
    (unit) => {
      if (isNew) {
        const workload = mounting[0] ?? functions[0];
        if (bind === undefined || !canMount(workload, bind, target)) return;
        const { path, read_only } = bind;
        const mount = ({ mounts }: Pick<DesiredOf<'application'>, 'mounts'>): void =>
          void mounts.push({ volume_id: target.meta.id, path, read_only });
        unit.require(target);
        if (isKind(workload, 'function')) unit.change(workload, mount);
        else unit.change(workload, mount);
        return;
      }
      if (!isExchanged) {
        unit.change(target, (draft) => {
          draft.data_id = volume.meta.id;
          delete draft.expires_at;
        });
        unit.change(volume, (draft) => {
          draft.data_id = target.desired.data_id ?? target.meta.id;
          draft.name = formerName(target.desired.name, restore.meta.id);
          draft.expires_at = expiry(ctx);
        });
      }
      const mountIt = ({ mounts }: Pick<DesiredOf<'application'>, 'mounts'>): void => {
        for (const mount of mounts) if (mount.volume_id === target.meta.id) mount.data_id = volume.meta.id;
      };
      for (const app of mounting) unit.change(app, mountIt);
      for (const one of functions) unit.change(one, mountIt);
    },
    { audited: 'restore' },
  );
}

/** The former volume, if it is of the database that is restored: what is of another one is left alone. */
function ownFormer({ desired, observed }: Restore, view: TenantView) {
  const former = view.get('volume', observed?.former_volume_id ?? '');
  return desired.of.kind === 'database' && former?.desired.database_id === desired.of.id ? former : undefined;
}

/** Whether another restore of the database goes on that may go back to this volume. It gives it an end when it has ended. */
function isFormerOfAnother(volumeId: string, { meta, desired }: Restore, view: TenantView): boolean {
  return view
    .by('restore', 'of', desired.of.id)
    .filter((one) => one.meta.id !== meta.id && !hasRestoreEnded(one.observed?.phase))
    .some(({ observed }) => observed?.former_volume_id === volumeId);
}

/**
 * Gives the former volume of a database its end, once nothing goes back to it by itself: however long that takes, as with a
 * server that is away. The empty one of a new database goes at once.
 */
async function endFormer({ restore, database, former }: World, ctx: Context): Promise<void> {
  if (former === undefined || database?.desired.data_volume_id === former.meta.id) return;
  if (restore.desired.is_new) await ctx.retire('volume', former.meta.id);
  else await ctx.amend('volume', former.meta.id, (draft) => void (draft.expires_at ??= expiry(ctx)));
}

/** Changes the pointer of the database to the new volume. The former one stays. */
async function change({ restore, database }: World, ctx: Context): Promise<void> {
  const { is_new: isNew } = restore.desired;
  if (database === undefined) return;
  await ctx.transact(
    (unit) => {
      unit.change(database, (draft) => {
        draft.data_volume_id = volumeIdOf(restore);
        beginArchive(draft, `${restore.meta.id} there`);
        if (isNew) draft.run = 'running';
      });
    },
    { audited: 'restore' },
  );
}

/** Another volume has a log of its own. Its id follows from the change, so that a repetition is the same. */
function beginArchive(draft: DesiredOf<'database'>, change: string): void {
  if (draft.archive !== undefined) draft.archive.id = uuidv5(archives, change);
}

/** Namespace of the ids of archives that begin with a change of the volume (UUIDv5). */
const archives = 'f2b0a6c4-95a7-4a57-8c1d-1d7b9e3c5a42';

/**
 * Changes the pointer of the database back to the volume that it served from before. The new one stays for a while: it may have
 * served clients without being found ready.
 */
async function goBack({ restore, database, volume, former }: World, ctx: Context): Promise<void> {
  if (database?.desired.data_volume_id !== volumeIdOf(restore) || !isStaying(former)) return;
  await ctx.transact(
    (unit) => {
      unit.change(database, (draft) => {
        draft.data_volume_id = former.meta.id;
        beginArchive(draft, `${restore.meta.id} back`);
        // it was made for this
        if (restore.desired.is_new) draft.run = 'stopped';
      });
      unit.change(former, (draft) => void delete draft.expires_at);
      if (isStaying(volume)) unit.change(volume, (draft) => void (draft.expires_at = expiry(ctx)));
    },
    { audited: 'restore' },
  );
}

/**
 * Removes the volumes of its attempts from which nothing serves; `isGoingOn`: but that of the present one. One that users could
 * write to, and that the database was to serve, stays for a while.
 */
async function removeVolumes({ restore, database }: World, isGoingOn: boolean, ctx: Context): Promise<void> {
  const isKept = isGoingOn || (restore.observed?.phase === 'completed' && !isDrill(restore));
  for (let attempt = 1; attempt <= attemptOf(restore); attempt += 1) {
    const id = volumeOfAttempt(restore, attempt);
    const isWanted = isKept && id === volumeIdOf(restore);
    const { data_id, expires_at } = ctx.view.get('volume', id)?.desired ?? {};
    // it has the former data of another one since the restore, or goes by itself
    const isLeft = data_id !== undefined || expires_at !== undefined;
    if (isWanted || isLeft || id === database?.desired.data_volume_id) continue;
    if (isFormerOfAnother(id, restore, ctx.view)) continue;
    if (id === volumeIdOf(restore) && isWantedBack(restore))
      await ctx.amend('volume', id, (draft) => void (draft.expires_at = expiry(ctx)));
    else await ctx.retire('volume', id);
  }
}

/** It was held, and a user wanted the database to serve it: what was written to it meanwhile is in no backup. */
function isWantedBack({ desired, observed }: Restore): boolean {
  return observed?.held_since !== undefined && desired.switch_requested && observed.error?.code !== 'cancelled';
}

function expiry({ clock }: Context): string {
  return new Date(clock.now().getTime() + retention.formerVolumeKeepMs).toISOString();
}

function verdict(world: World, step: Step, now: Observed): Verdict<'restore'> {
  const because = 'because' in step ? step.because : undefined;
  return { observed: now, conditions: conditionsOf(world, now, because), next: nextOf(world, step, now) };
}

function nextOf(world: World, step: Step, now: Observed): Next {
  if (step.do === 'rest') return { settled: true };
  const because: Because = 'because' in step ? step.because : 'what follows to be done';
  const before = world.restore.observed;
  const isMoved = now.phase !== (before?.phase ?? 'pending') || now.former_volume_id !== before?.former_volume_id;
  if (isMoved || step.do === 'switch' || step.do === 'turn_back') return { again: 0, because };
  if (step.do === 'make') return { again: 0, because };
  if (step.do === 'tidy') return { again: 60_000, because: 'what it left to be removed' };
  if (world.turn === 'of restores') return { again: Math.min(turnLookMs, Math.max(1000, world.leftMs)), because };
  return { again: Math.max(1000, world.leftMs), because };
}

/** Between two looks whether the drill before has gone, in milliseconds. */
const turnLookMs = 60_000;

function doneWords({ restore, mounting, functions, target }: World): string {
  const { bind, is_new: isNew } = restore.desired;
  if (isDrill(restore)) return provenWords;
  if (!isNew) return 'It has what was restored; its former data stays for a week';
  const users = [...mounting, ...functions];
  const isMounted = users.some(({ desired }) => desired.mounts.some((it) => it.volume_id === target?.meta.id));
  const kind = bind?.workload_kind ?? 'application';
  return bind === undefined || isMounted
    ? 'It has what was restored'
    : `It has what was restored, and its ${kind} cannot mount it at ${bind.path} any more: bind it`;
}

/** Records how a restore ended, and tells those who may see the database. */
async function announce(world: World, now: Observed, ctx: Context): Promise<void> {
  const { restore, database, target } = world;
  if (restore.observed?.phase === now.phase || !hasRestoreEnded(now.phase)) return;
  const { name } = restore.desired;
  const isBad = now.phase === 'failed';
  const done = doneWords(world);
  const message = isBad ? (now.error?.message ?? '') : done;
  const isTrial = isDrill(restore);
  const event = {
    type: isBad ? ('warning' as const) : ('normal' as const),
    reason: `${isTrial ? 'Drill' : 'Restore'}${isBad ? 'Failed' : 'Completed'}`,
    about: restore.meta.id,
    message,
  };
  ctx.event(restore, event);
  const of = database ?? target;
  if (of !== undefined) ctx.event(of, event);
  // of a drill its backup tells, and of the data of a clone that one
  if (now.error?.code === 'cancelled' || isTrial || restore.desired.clone_id !== undefined) return;
  await ctx.notify(restore, `${restore.meta.id}/${now.phase}`, {
    type: isBad ? 'restore_failed' : 'restore_completed',
    severity: isBad ? 'error' : 'info',
    title: isBad ? `The restore of ${name} failed` : `${name} is restored`,
    message,
  });
}

/** Those of a database or a volume that have not ended. */
function unfinished(view: TenantView, of: string): string[] {
  return view
    .by('restore', 'of', of)
    .filter(({ observed }) => !hasRestoreEnded(observed?.phase))
    .map(({ meta }) => meta.id);
}

function ofVolume(view: TenantView, volume: string): string[] {
  return view.by('restore', 'volume', volume).map(({ meta }) => meta.id);
}
