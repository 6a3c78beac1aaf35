import { archiveManifestKey, fileOfKey, logFolder, logKey } from '../../store/archive-keys.ts';
import { assignmentId } from '../../store/kinds/assignment-id.ts';
import { hasRestoreEnded } from '../../store/kinds/restore.ts';
import { newBackup } from '../../store/new-backup.ts';
import { isStaying } from '../../store/resource.ts';
import { isSegment, segmentOf } from '../../databases/wal.ts';
import type { BucketPlace } from '../../network/bucket.ts';
import { placeToAsk } from '../backup-destination/place.ts';
import type { KeyOpener } from '../backup-destination/place.ts';
import { isRemovalGivenUp } from '../backup-destination/removal.ts';
import { BucketTrouble } from '../backup/bucket.ts';
import type { BackupBucket } from '../backup/bucket.ts';
import { servingInstance } from '../database/world.ts';
import { perform } from '../rollout/actions.ts';
import type { Context, Controller, Verdict } from '../runtime/controller.ts';
import { limits } from '../runtime/limits.ts';
import { onChange, onChild } from '../runtime/wakes.ts';
import { plan, senderRole } from './plan.ts';
import {
  checkedFor,
  conditionsOf,
  dueBase,
  firstNeeded,
  gapsIn,
  isCheckDue,
  isOpen,
  isOverdue,
  isWaiting,
  observedOf,
  patience,
  surplusOf,
} from './states.ts';
import type { Archive, Observed, World } from './states.ts';

export interface WalArchiveSettings {
  secrets: KeyOpener;
  bucket: Pick<BackupBucket, 'list' | 'put' | 'remove'>;
}

/** Pages of a thousand keys that one run reads. */
const mostPages = 1000;
/** Objects that one run removes. */
const mostRemoved = 1000;

/**
 * Has the log of a database sent to its bucket, with base backups, and keeps what its window needs: segments that no base
 * backup needs any more go, and those that are missing are told.
 */
export function walArchiveController({ secrets, bucket }: WalArchiveSettings): Controller<'wal_archive'> {
  return {
    name: 'wal_archive',
    kind: 'wal_archive',
    concurrency: limits.buckets.atOnce,
    shareOf: ({ desired }) => desired.destination_id,
    reads: ['assignment', 'backup', 'backup_destination', 'database', 'restore', 'settings', 'project'],
    children: ['assignment', 'backup'],
    notifies: ['archive_behind', 'archive_broken', 'archive_gap', 'archive_recovered'],
    wakes: [
      onChild('assignment', ({ desired }) => (desired.workload_kind === 'wal_archive' ? [desired.workload_id] : [])),
      onChange(
        'assignment',
        ({ meta, observed }) => [meta.generation, observed?.ready],
        ({ desired }, view) =>
          desired.workload_kind === 'database'
            ? view.by('wal_archive', 'database', desired.workload_id).map(({ meta }) => meta.id)
            : [],
      ),
      onChange(
        'backup',
        ({ meta, observed }) => [meta.deletionRequestedAt, observed?.phase],
        ({ desired }) => (desired.archive_id === undefined ? [] : [desired.archive_id]),
      ),
      onChange(
        'database',
        ({ meta, desired }) => [meta.deletionRequestedAt, desired.archive, desired.run],
        ({ meta }, view) => view.by('wal_archive', 'database', meta.id).map((it) => it.meta.id),
      ),
      onChange(
        'restore',
        ({ observed }) => observed?.phase,
        ({ desired }) => (desired.recovery === undefined ? [] : [desired.recovery.archive_id]),
      ),
    ],
    async reconcile(it, ctx) {
      const world = readWorld(it, ctx);
      await perform(ctx, plan(world));
      await makeBase(world, ctx);
      for (const { meta } of surplusOf(world))
        await ctx.amend('backup', meta.id, (draft) => void (draft.expires_at ??= world.now.toISOString()));
      const isLate = ctx.since('waiting', isWaiting(world)) >= patience.behindMs || isOverdue(world);
      const seen = observedOf(world, isLate);
      const { now, because, again } = await atBucket(world, seen, ctx);
      const told = await announce(world, now, ctx);
      const next = { ...now, ...(told !== undefined && { notified: told }) };
      if (told === undefined) delete next.notified;
      const conditions = conditionsOf(world, next);
      if (next.phase === 'removed') return { observed: next, conditions, next: { settled: true } };
      return {
        observed: next,
        conditions,
        next: { again: again ?? patience.lookMs, because: because ?? 'its database to write on' },
      };
    },
    async finalize(it, ctx) {
      const world = readWorld(it, ctx);
      await perform(ctx, plan(world));
      const isEmpty = world.sender === undefined && ((await isRemoved(world, ctx)) || isGivenUp(world, ctx));
      const now = observedOf(world, false);
      const verdict: Verdict<'wal_archive'> = {
        observed: now,
        conditions: [
          { type: 'Ready', status: 'false', reason: 'Deleting', message: 'What it has in its bucket is being removed' },
        ],
        next: { again: 15_000, because: 'its bucket to remove what it has of it' },
      };
      return { ...verdict, released: isEmpty };
    },
  };

  /** What follows from what the bucket has. Its trouble is told, and passes. */
  async function atBucket(
    world: World,
    seen: Observed,
    ctx: Context,
  ): Promise<{ now: Observed; because?: `${string} to ${string}`; again?: number }> {
    try {
      if (!isOpen(world) && world.sender === undefined && world.bases.length === 0 && seen.phase !== 'removed') {
        if (!(await removeSome(world, undefined, ctx)))
          return { now: seen, because: 'what it has in its bucket to be removed', again: 0 };
        return { now: { ...seen, phase: 'removed', removed_at: ctx.clock.now().toISOString() }, again: 0 };
      }
      if (!isCheckDue(world)) return { now: seen };
      const first = firstNeeded(world) ?? '';
      const last = seen.last_segment ?? first;
      const at = ctx.clock.now().toISOString();
      // what is before the first base backup is needed no more, and a full bucket takes nothing before something has gone
      await removeSome(world, first, ctx);
      const place = placeToAsk(world.destination, ctx.view, secrets, 'use');
      if (seen.system_identifier !== undefined)
        await bucket.put(place, archiveManifestKey(world.archive), manifestOf(world.archive, seen), ctx.signal);
      const names = await namesFrom(world, first, place, ctx);
      const checked = { checked_at: at, checked_for: checkedFor(world) };
      return { now: { ...seen, gaps: gapsIn(names, first, last), ...checked }, again: 1000 };
    } catch (error) {
      if (!(error instanceof BucketTrouble)) throw error;
      return { now: seen, because: `its bucket to answer. ${error.message}`, again: 15_000 };
    }
  }

  async function namesFrom({ archive }: World, first: string, place: BucketPlace, ctx: Context): Promise<string[]> {
    const names: string[] = [];
    const { position } = segmentOf(first);
    let after: string | undefined = logKey(archive, first).slice(0, -'.zst'.length);
    for (let page = 0; page < mostPages; page += 1) {
      const { keys, more } = await bucket.list(place, logFolder(archive), after, ctx.signal);
      for (const key of keys) {
        const name = fileOfKey(archive, key);
        if (name !== undefined && isSegment(name) && segmentOf(name).position >= position) names.push(name);
      }
      after = keys.at(-1);
      if (!more || after === undefined) return names;
    }
    throw new BucketTrouble({
      code: 'too_many',
      message: 'The bucket has more segments than can be listed',
      isPassing: false,
    });
  }

  /** Removes files of the log before a segment, or all; resolves with whether none is left. */
  async function removeSome(world: World, before: string | undefined, ctx: Context): Promise<boolean> {
    const { archive } = world;
    const place = placeToAsk(world.destination, ctx.view, secrets, 'removal');
    const end = before === undefined ? undefined : logKey(archive, before);
    for (let page = 0; page < mostPages; page += 1) {
      const { keys, more } = await bucket.list(place, logFolder(archive), undefined, ctx.signal);
      const old = keys.filter((key) => end === undefined || key < end).slice(0, mostRemoved);
      await bucket.remove(place, old, ctx.signal);
      if (more && old.length > 0) continue;
      if (before === undefined && !more && old.length === keys.length)
        await bucket.remove(place, [archiveManifestKey(archive)], ctx.signal);
      return !more && old.length === keys.length;
    }
    return false;
  }

  function isGivenUp({ archive, destination }: World, ctx: Context): boolean {
    return isRemovalGivenUp(archive, destination, [`${logFolder(archive)}/`, archiveManifestKey(archive)], ctx);
  }

  async function isRemoved(world: World, ctx: Context): Promise<boolean> {
    try {
      return await removeSome(world, undefined, ctx);
    } catch (error) {
      if (error instanceof BucketTrouble) return error.code === 'destination_gone';
      throw error;
    }
  }
}

function readWorld(archive: Archive, { view, clock }: Context): World {
  const { database_id, destination_id, volume_id } = archive.desired;
  const database = view.get('database', database_id);
  const serving = database && servingInstance(database, view);
  return {
    archive,
    database,
    destination: view.get('backup_destination', destination_id),
    instance: serving?.desired.version === volume_id ? serving : undefined,
    sender: view.get('assignment', assignmentId.task(archive.meta.id, senderRole)),
    bases: view.by('backup', 'archive', archive.meta.id),
    allBases: view.by('backup', 'of', database_id).filter(({ desired }) => desired.method === 'physical'),
    archives: view.by('wal_archive', 'database', database_id),
    recoveries: view
      .by('restore', 'archive', archive.meta.id)
      .filter(({ observed }) => !hasRestoreEnded(observed?.phase)),
    now: clock.now(),
  };
}

/** Makes the base backup that is due. */
async function makeBase(world: World, ctx: Context): Promise<void> {
  const { archive, database, destination } = world;
  const id = dueBase(world);
  if (id === undefined || database === undefined || !isStaying(destination)) return;
  if (ctx.view.get('backup', id) !== undefined) return;
  await ctx.transact((unit) => {
    unit.require(archive);
    unit.require(database);
    unit.require(destination);
    unit.create('backup', id, {
      ...newBackup({ kind: 'database', it: database }, destination, ctx.clock.now()),
      method: 'physical',
      archive_id: archive.meta.id,
    });
  });
}

/** What lies beside the segments, for people and for another installation. */
function manifestOf({ meta, desired }: Archive, { system_identifier }: Observed): string {
  const { database_id, name, engine } = desired;
  const manifest = {
    format: 'setpoint-archive/1',
    id: meta.id,
    database: { id: database_id, name },
    engine,
    system_identifier,
    compression: 'zstd',
  };
  return `${JSON.stringify(manifest, null, 2)}\n`;
}

/** Notifies of trouble and of its end. Resolves with what users know of. */
async function announce({ archive }: World, now: Observed, ctx: Context): Promise<Observed['notified']> {
  const before = archive.observed?.notified;
  const { name } = archive.desired;
  const trouble =
    now.phase === 'behind' || now.phase === 'broken'
      ? now.phase
      : now.gaps.length > 0 && now.phase !== 'ended'
        ? 'gap'
        : undefined;
  if (trouble === before) return trouble;
  const key = `${archive.meta.id}/${trouble ?? 'good'}/${archive.meta.observedRevision ?? 0}`;
  if (trouble !== undefined) {
    const words = {
      behind:
        'What it writes waits on its server, as its bucket has not taken it for some minutes: see its recovery window',
      broken: 'A segment of its log is not what was sent before: nothing after it is sent. See its recovery window',
      gap: 'Its bucket has lost a part of its log: instants within it cannot be recovered to. Another base backup is made',
    } as const;
    await ctx.notify(archive, key, {
      type: `archive_${trouble}`,
      severity: trouble === 'behind' ? 'warning' : 'error',
      title: `${name} cannot be recovered to each instant`,
      message: words[trouble],
    });
  } else if (now.phase === 'archiving')
    await ctx.notify(archive, key, {
      type: 'archive_recovered',
      severity: 'info',
      title: `${name} is archived again`,
      message: 'What it writes is in its bucket',
    });
  return trouble;
}
