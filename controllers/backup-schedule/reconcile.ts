import { inParts, newBackup } from '../../store/new-backup.ts';
import { nextDrillAt } from '../../store/last-drills.ts';
import { isDrill, newDrill } from '../../store/new-drill.ts';
import { targetsOf } from '../../store/backup-targets.ts';
import type { TenantView } from '../../store/mirror.ts';
import { maxVolumes } from '../../store/kinds/volume.ts';
import { isStaying } from '../../store/resource.ts';
import { uuidv5 } from '../../store/uuid.ts';
import type { Context, Controller } from '../runtime/controller.ts';
import { onChange } from '../runtime/wakes.ts';
import { conditionsOf, drillsDueOf, dueOf, failedSurplusOf, isBusyBackup, observedAfter, surplusOf } from './states.ts';
import type { Due, DueDrill, Observed, Schedule, World } from './states.ts';

/** Namespace of the ids of backups that follow from an instant of a schedule (UUIDv5). */
const namespace = '5d7c1f8e-0b0a-4c51-9a5e-2f4b8d1c6e70';

/** Namespace of the ids of drills that follow from a schedule and a backup (UUIDv5). */
const drillNamespace = '0c7b1c0e-3f6e-4b52-8b1c-7d7f5a1e9d24';

/** Longest time between two looks, in milliseconds: a clock that was set is found. */
const lookMs = 60 * 60_000;

/**
 * Makes a backup at each instant of a schedule, and lets those go that are more than are to stay. Its id follows from the
 * instant, so that a repetition after a crash finds it. Has the newest one restored for trial as often as is wanted.
 */
export const backupScheduleController: Controller<'backup_schedule'> = {
  name: 'schedule',
  kind: 'backup_schedule',
  reads: ['application', 'backup', 'database', 'restore', 'volume', 'backup_destination'],
  children: ['backup', 'restore', 'volume'],
  notifies: ['backup_overdue', 'backup_recovered', 'backup_missed'],
  wakes: [
    onChange(
      'backup',
      ({ observed }) => [observed?.phase, observed?.verification?.restore_id],
      ({ desired }) => (desired.schedule_id === undefined ? [] : [desired.schedule_id]),
    ),
    onChange(
      'database',
      ({ meta, desired }) => [meta.deletionRequestedAt, desired.run],
      ({ meta }, view) => ofThat(view, meta.id),
    ),
    onChange(
      'volume',
      ({ meta }) => meta.deletionRequestedAt,
      ({ meta }, view) => ofThat(view, meta.id),
    ),
    onChange(
      'application',
      ({ meta, desired }) => [meta.deletionRequestedAt, desired.mounts.map(({ volume_id }) => volume_id)],
      ({ meta }, view) => ofThat(view, meta.id),
    ),
  ],
  async reconcile(it, ctx) {
    const world = readWorld(it, ctx);
    const due = dueOf(world);
    const made = due.fires === undefined ? undefined : await fire(world, due.fires, ctx);
    for (const { meta } of surplusOf(world))
      await ctx.amend('backup', meta.id, (draft) => void (draft.expires_at ??= world.now.toISOString()));
    for (const { meta } of failedSurplusOf(world)) await ctx.retire('backup', meta.id);
    const drills = drillsDueOf(world);
    for (const drill of drills) await begin(world, drill, ctx);
    const now = observedAfter(world, due, made, drills);
    await announce(world, due, now, ctx);
    const comes = [now.next_run_at, nextDrillAt(it.desired, now.drills)]
      .map((at) => Date.parse(at ?? '') - world.now.getTime())
      // a drill that is due waits for a backup, which wakes it
      .filter((ms, at) => (at === 0 ? !Number.isNaN(ms) : ms > 0));
    const next = Math.min(lookMs, ...comes);
    return {
      observed: now,
      conditions: conditionsOf(now, world),
      next: { again: Math.max(next, 1), because: 'its next time to come' },
    };
  },
};

function readWorld(schedule: Schedule, { view, clock }: Context): World {
  const backups = view.by('backup', 'schedule', schedule.meta.id);
  return {
    schedule,
    targets: targetsOf(schedule, view),
    name: view.get(schedule.desired.of.kind, schedule.desired.of.id)?.desired.name,
    backups,
    drills: backups.flatMap(({ meta }) => view.by('restore', 'backup', meta.id).filter(isDrill)),
    room: maxVolumes - view.by('volume', 'project', schedule.desired.project_id).length,
    now: clock.now(),
  };
}

function ofThat(view: TenantView, id: string): string[] {
  return view.by('backup_schedule', 'of', id).map(({ meta }) => meta.id);
}

/** Makes the backups of an instant, unless they are there. Resolves with the id of the last one. */
async function fire({ schedule, targets }: World, at: Date, ctx: Context): Promise<string | undefined> {
  const destination = ctx.view.get('backup_destination', schedule.desired.destination_id);
  const isOfMany = schedule.desired.of.kind === 'application';
  const wanted = targets
    .filter(({ it }) => isStaying(it))
    .map((of) => {
      const instant = `${schedule.meta.id} ${at.toISOString()}`;
      return { of, id: uuidv5(namespace, isOfMany ? `${instant} ${of.it.meta.id}` : instant) };
    });
  const absent = wanted.filter(({ id }) => ctx.view.get('backup', id) === undefined);
  if (isStaying(destination))
    for (const part of inParts(absent))
      await ctx.transact((unit) => {
        unit.require(schedule);
        unit.require(destination);
        for (const { of, id } of part) {
          unit.require(of.it);
          unit.create('backup', id, {
            ...newBackup(of, destination, ctx.clock.now()),
            schedule_id: schedule.meta.id,
            scheduled_for: at.toISOString(),
          });
        }
      });
  return wanted.at(-1)?.id;
}

/** Has a backup restored for trial, once. */
async function begin({ schedule, now }: World, { backup, of }: DueDrill, ctx: Context): Promise<void> {
  const id = uuidv5(drillNamespace, `${schedule.meta.id} ${backup.meta.id}`);
  const volumeId = uuidv5(drillNamespace, `${id} volume`);
  const { restore, volume } = newDrill(backup, of, volumeId, now);
  await ctx.transact((unit) => {
    unit.require(schedule);
    unit.require(backup);
    unit.require(of.it);
    unit.create('volume', volumeId, volume);
    unit.create('restore', id, restore);
  });
}

async function announce(
  { schedule, name: known, backups }: World,
  due: Due,
  now: Observed,
  ctx: Context,
): Promise<void> {
  const name = known ?? `a ${schedule.desired.of.kind}`;
  const before = schedule.observed;
  if (due.missed > 0) {
    const busy = backups.find(isBusyBackup);
    const why =
      due.skipped === 'overlap'
        ? `backup ${busy?.meta.id ?? ''} of the schedule had not ended: let it run less often, or look why that takes so long`
        : 'the control plane was away at their time: one backup was begun in place of all';
    const message = `${due.missed} ${due.missed === 1 ? 'backup was' : 'backups were'} left out, as ${why}`;
    ctx.event(schedule, { type: 'warning', reason: 'BackupMissed', message });
    await ctx.notify(schedule, `${schedule.meta.id}/missed/${now.handled_until}`, {
      type: 'backup_missed',
      severity: 'warning',
      title: `A backup of ${name} was left out`,
      message,
    });
  }
  if (before === undefined || before.phase === now.phase) return;
  const key = `${schedule.meta.id}/${now.phase}/${schedule.meta.observedRevision ?? 0}`;
  if (now.phase === 'overdue')
    await ctx.notify(schedule, key, {
      type: 'backup_overdue',
      severity: 'error',
      title: `${name} has no new backup`,
      message:
        now.last_success_at === undefined
          ? 'No backup of its schedule was good yet: see its backups'
          : `The last good one is of ${now.last_success_at}: see its backups`,
    });
  if (before.phase === 'overdue' && now.phase === 'active')
    await ctx.notify(schedule, key, {
      type: 'backup_recovered',
      severity: 'info',
      title: `${name} is backed up again`,
      message: `The last good backup is of ${now.last_success_at ?? ''}`,
    });
}
