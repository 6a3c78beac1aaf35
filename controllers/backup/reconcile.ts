import { answerOf } from '../../agent-protocol/answer.ts';
import { CallError } from '../../agent-protocol/call-error.ts';
import { VolumeUsage } from '../../agent-protocol/messages.ts';
import { defined } from '../../store/defined.ts';
import { backupKeys } from '../../store/backup-keys.ts';
import { manifestOf } from '../../store/backup-manifest.ts';
import { hasBackupEnded, isGoodBackup, keptUntil } from '../../store/kinds/backup.ts';
import { hasRestoreEnded } from '../../store/kinds/restore.ts';
import { dataName, volumeName } from '../../store/kinds/volume.ts';
import type { BucketPlace } from '../../network/bucket.ts';
import type { TenantView } from '../../store/mirror.ts';
import { isReadable } from '../../store/recovery-window.ts';
import { isDrill } from '../../store/new-drill.ts';
import { isDeleting, isStaying } from '../../store/resource.ts';
import type { ReadonlyResource } from '../../store/resource.ts';
import { isAsked, placeToAsk } from '../backup-destination/place.ts';
import type { Asking } from '../backup-destination/place.ts';
import type { KeyOpener } from '../backup-destination/place.ts';
import { isRemovalGivenUp } from '../backup-destination/removal.ts';
import { servingInstance } from '../database/world.ts';
import { perform } from '../rollout/actions.ts';
import type { AgentCalls } from '../runtime/agent-calls.ts';
import type { Because, Context, Controller, Next, Verdict } from '../runtime/controller.ts';
import { limits } from '../runtime/limits.ts';
import { upToDate } from '../runtime/up-to-date.ts';
import { onChange, onChild } from '../runtime/wakes.ts';
import { patienceMs, taskOf, taskState } from '../task/task.ts';
import { taskRow } from '../../agent-protocol/task-types.ts';
import { BucketTrouble } from './bucket.ts';
import type { BackupBucket, StoredObject } from './bucket.ts';
import { oldestFirst } from './order.ts';
import { plan } from './plan.ts';
import {
  afterLook,
  conditionsOf,
  goesOn,
  mayBeginAnother,
  missing,
  nextLookAt,
  notWhole,
  observedOf,
  patience,
  stepOf,
  withVerification,
} from './states.ts';
import type { Backup, Observed, Step, World } from './states.ts';

export interface BackupSettings {
  secrets: KeyOpener;
  bucket: BackupBucket;
  agents: AgentCalls;
}

/** An agent says by then how large a volume is. In milliseconds. */
const usageMs = 10_000;

/** Pause before a bucket that did not answer is asked again, in milliseconds. */
const retryMs = 15_000;
const tidyMs = 15 * 60_000;

/** A step for which the bucket is asked. */
type AtBucket = Extract<Step, { do: 'adopt' | 'begin' | 'finish' | 'look' | 'expire' | 'keep' | 'tidy' }>;

/** What a step came to. */
interface Outcome {
  now: Observed;
  /** What it waits for; absent: nothing. */
  because?: Because;
  /** Milliseconds after which it is looked at again. */
  again?: number;
}

/**
 * Has the server of a database or a volume send what that holds to a bucket, makes one object of it, and reads back what the bucket says of
 * that. Looks every day whether the object is still there, and removes it when its time is over.
 */
export function backupController({ secrets, bucket, agents }: BackupSettings): Controller<'backup'> {
  return {
    name: 'backup',
    kind: 'backup',
    concurrency: limits.buckets.atOnce,
    shareOf: ({ desired }) => desired.destination_id,
    reads: [
      'assignment',
      'database',
      'volume',
      'server',
      'backup_destination',
      'restore',
      'settings',
      'project',
      'wal_archive',
    ],
    children: ['assignment'],
    notifies: ['backup_failed', 'backup_missing', 'backup_not_proven'],
    wakes: [
      onChild('assignment', ({ desired }) => (desired.workload_kind === 'backup' ? [desired.workload_id] : [])),
      // a database that restarts keeps its phase
      onChange(
        'assignment',
        ({ observed }) => observed?.ready,
        ({ desired }, view) =>
          desired.workload_kind === 'database' ? unfinished(view, 'of', desired.workload_id) : [],
      ),
      onChange(
        'database',
        ({ meta, desired, observed }) => [meta.deletionRequestedAt, desired.data_volume_id, observed?.phase],
        ({ meta }, view) => unfinished(view, 'of', meta.id),
      ),
      onChange(
        'volume',
        ({ meta, desired, observed }) => [meta.deletionRequestedAt, desired.data_id, observed?.phase],
        ({ meta }, view) => unfinished(view, 'of', meta.id),
      ),
      onChange(
        'server',
        ({ meta, observed }) => [meta.deletionRequestedAt, observed?.phase],
        ({ meta }, view) => unfinished(view, 'server', meta.id),
      ),
      onChange(
        'backup_destination',
        ({ observed }) => observed?.phase,
        ({ meta }, view) =>
          view
            .by('backup', 'destination', meta.id)
            .filter(awaitsBucket)
            .map((it) => it.meta.id),
      ),
      onChange(
        'restore',
        ({ observed }) => hasRestoreEnded(observed?.phase),
        ({ desired }) => (desired.backup_id === undefined ? [] : [desired.backup_id]),
      ),
      onChange('restore', replacesData, ({ desired }, view) => unfinished(view, 'of', desired.of.id)),
    ],
    async reconcile(it, ctx) {
      const world = readWorld(it, ctx);
      const step = stepOf(world);
      const outcome = await carryOut(world, step, ctx);
      const { because } = outcome;
      const now = withVerification(world, outcome.now);
      await perform(ctx, plan(world, step));
      await announce(world, now, ctx);
      await announceTrial(world, now, ctx);
      return { observed: now, conditions: conditionsOf(world, now, because), next: nextOf(world, outcome, ctx) };
    },
    async finalize(it, ctx) {
      const world = readWorld(it, ctx);
      await perform(ctx, plan(world, { do: 'tidy' }));
      const isEmpty = world.task === undefined && ((await isRemoved(world, ctx)) || isGivenUp(world, ctx));
      return { ...deleting(world, ctx), released: isEmpty };
    },
  };

  async function carryOut(world: World, step: Step, ctx: Context): Promise<Outcome> {
    const { backup } = world;
    const before = observedOf(backup);
    const at = ctx.clock.now().toISOString();
    switch (step.do) {
      case 'rest':
        return { now: before };
      case 'wait':
        return { now: goesOn(world), because: step.because };
      case 'send':
        return { now: goesOn(world), because: step.because };
      case 'mark':
        return { now: { ...before, expiring: true }, again: Math.max(1000, patience.expiringMs - world.expiringMs) };
      case 'fail':
        return { now: { ...before, phase: 'failed', error: step.error, finished_at: at } };
      default:
        return asked(world, step, ctx);
    }
  }

  /** A step that asks the bucket, and what its trouble leads to. */
  async function asked(world: World, step: AtBucket, ctx: Context): Promise<Outcome> {
    try {
      const outcome = await atBucket(world, step, ctx);
      ctx.since('bucket', false);
      return outcome;
    } catch (error) {
      if (!(error instanceof BucketTrouble)) throw error;
      return troubled(world, error, ctx);
    }
  }

  /** The steps that ask the bucket. @throws BucketTrouble */
  async function atBucket(world: World, step: AtBucket, ctx: Context): Promise<Outcome> {
    const { backup } = world;
    const before = observedOf(backup);
    const at = ctx.clock.now().toISOString();
    const place = placeToAsk(world.destination, ctx.view, secrets, askingOf(step));
    const { object, manifest } = backupKeys(backup);
    const { signal } = ctx;
    switch (step.do) {
      case 'begin': {
        const now = begun(world, await bucket.begin(place, object, signal));
        const expected_bytes = world.expectedBytes ?? (await usage(world, ctx));
        return { now: { ...now, ...defined({ expected_bytes }) }, again: 0 };
      }
      case 'adopt': {
        const { folder: _, ...says } = step.found;
        const there = await bucket.stat(place, object, signal);
        if (there?.bytes === says.size_bytes)
          return { now: { ...before, ...says, phase: 'completed', etag: there.etag, verified_at: at } };
        return {
          now: { ...before, phase: 'failed', error: there === undefined ? missing : notWhole, finished_at: at },
        };
      }
      case 'finish':
        return finish(world, step, ctx, place);
      case 'look':
        return { now: afterLook(before, (await bucket.stat(place, object, signal))?.bytes, at) };
      case 'expire': {
        await bucket.remove(place, [manifest, object], signal);
        const { expiring: _, ...rest } = before;
        return { now: { ...rest, phase: 'expired', finished_at: at } };
      }
      case 'keep': {
        const { expiring: _, ...rest } = before;
        const now = afterLook(rest, (await bucket.stat(place, object, signal))?.bytes, at);
        // a removal that failed halfway may have taken it alone
        if (now.lost === undefined) await bucket.put(place, manifest, manifestOf(backup, now), signal);
        return { now };
      }
      case 'tidy': {
        const { upload_id: id = '', has_surplus: _, ...rest } = before;
        await bucket.abort(place, { key: object, id }, signal);
        await bucket.remove(place, [manifest, object], signal);
        return { now: rest };
      }
    }
  }

  /** Bytes that the volume takes that is to be sent; `undefined`: its agent does not say. Nothing depends on it but the size of parts. */
  async function usage({ backup, database, volume }: World, { tenant, signal }: Context): Promise<number | undefined> {
    const source = volume === undefined ? database && volumeName(database.desired.data_volume_id) : dataName(volume);
    if (source === undefined) return undefined;
    const call = { method: 'volume.usage', volume: source } as const;
    try {
      const answer = await agents.call(tenant, backup.desired.place.server_id, call, { timeoutMs: usageMs, signal });
      const { bytes } = answerOf(VolumeUsage, answer);
      return bytes === undefined ? undefined : Math.ceil(bytes);
    } catch (error) {
      if (error instanceof CallError) return undefined;
      throw error;
    }
  }

  /** Makes the object of the parts, and requires that the bucket says of it what was sent. */
  async function finish(
    world: World,
    { result }: Extract<Step, { do: 'finish' }>,
    { signal, clock }: Context,
    place: BucketPlace,
  ): Promise<Outcome> {
    const { backup } = world;
    const { upload_id: id = '', ...before } = goesOn(world);
    const { object, manifest } = backupKeys(backup);
    const wanted = { bytes: result.size_bytes, etag: result.etag, parts: result.parts };
    let made: StoredObject;
    try {
      made = await bucket.complete(place, { key: object, id }, wanted, signal);
    } catch (error) {
      const isSurplus = error instanceof BucketTrouble && error.code === 'parts_differ';
      if (!isSurplus || !mayBeginAnother(before)) throw error;
      return { now: { ...before, upload_id: id, has_surplus: true, phase: 'running' }, again: 0 };
    }
    const found = await bucket.stat(place, object, signal);
    const at = clock.now().toISOString();
    if (found?.bytes !== wanted.bytes || found.etag !== made.etag)
      return { now: { ...before, upload_id: id, phase: 'failed', error: notWhole, finished_at: at } };
    const { first_segment, last_segment, stopped_at } = result;
    const hasLog = first_segment !== undefined && last_segment !== undefined && stopped_at !== undefined;
    const now: Observed = {
      ...before,
      ...(hasLog && { log: { first_segment, last_segment, stopped_at } }),
      phase: 'completed',
      size_bytes: result.size_bytes,
      dump_bytes: result.dump_bytes,
      checksum_sha256: result.checksum_sha256,
      etag: found.etag,
      ...defined({ changed_files: result.changed_files, left_out: result.left_out, notes: result.notes }),
      finished_at: at,
      verified_at: at,
    };
    // last: whoever finds it finds a whole backup
    await bucket.put(place, manifest, manifestOf(backup, now), signal);
    return { now };
  }

  /** The bucket did not do what it was asked: what may pass is tried again for an hour. */
  function troubled(world: World, { code, message, isPassing }: BucketTrouble, ctx: Context): Outcome {
    const now = goesOnOrEnded(world);
    const hasEnded = hasBackupEnded(now.phase);
    const because = closed(world, hasEnded ? 'removal' : 'use') ?? (`its bucket to answer. ${message}` as const);
    if (hasEnded) return { now, because, again: tidyMs };
    const isPatient = isPassing && ctx.since('bucket', true) < patience.bucketMs;
    if (isPatient) return { now, because, again: retryMs };
    return { now: { ...now, phase: 'failed', error: { code, message }, finished_at: ctx.clock.now().toISOString() } };
  }

  function isGivenUp({ backup, destination }: World, ctx: Context): boolean {
    const { object, manifest } = backupKeys(backup);
    return isRemovalGivenUp(backup, destination, [object, manifest], ctx);
  }

  async function isRemoved(world: World, ctx: Context): Promise<boolean> {
    const { backup } = world;
    const { phase, upload_id: id, size_bytes: bytes } = backup.observed ?? {};
    // what was completed once may be there, whatever became of it
    if (id === undefined && (bytes === undefined || phase === 'expired')) return true;
    // no user has asked for the removal of a lost backup: what its bucket has again can be taken up
    if (observedOf(backup).lost !== undefined && isByItself(backup)) return true;
    try {
      const place = placeToAsk(world.destination, ctx.view, secrets, 'removal');
      const { object, manifest } = backupKeys(backup);
      if (id !== undefined) await bucket.abort(place, { key: object, id }, ctx.signal);
      await bucket.remove(place, [manifest, object], ctx.signal);
      return true;
    } catch (error) {
      if (error instanceof BucketTrouble) return error.code === 'destination_gone';
      throw error;
    }
  }
}

const removing: readonly AtBucket['do'][] = ['expire', 'tidy'];
const askingOf = ({ do: what }: AtBucket): Asking => (removing.includes(what) ? 'removal' : 'use');

/** What a backup waits for whose bucket is not asked, as its probes fail; `undefined`: it is asked. */
function closed({ destination }: World, asking: Asking): Because | undefined {
  if (destination === undefined || isAsked(destination, asking)) return undefined;
  return `destination ${destination.desired.name} to be reachable`;
}

/** Its time was over when its deletion was requested: it goes by itself. */
function isByItself({ meta, observed }: Backup): boolean {
  const until = observed && keptUntil(observed);
  return until !== undefined && Date.parse(meta.deletionRequestedAt ?? '') >= until;
}

function readWorld(it: Backup, ctx: Context): World {
  const { view, clock } = ctx;
  const { of, place, destination_id } = it.desired;
  const restores = view.by('restore', 'backup', it.meta.id);
  const database = of.kind === 'database' ? view.get('database', of.id) : undefined;
  const task = taskOf(view, it.meta.id, 'backup');
  const isReplaced = view.by('restore', 'of', of.id).some(replacesData);
  return {
    backup: it,
    database,
    volume: of.kind === 'volume' ? view.get('volume', of.id) : undefined,
    instance: database && servingInstance(database, view),
    server: view.get('server', place.server_id),
    destination: view.get('backup_destination', destination_id),
    archive: view.get('wal_archive', it.desired.archive_id ?? ''),
    task,
    expectedBytes: expectedBytes(it, view) ?? it.observed?.expected_bytes,
    hasSuccessor: hasSuccessor(it, view, clock.now()),
    isRead: restores.some(({ observed }) => !hasRestoreEnded(observed?.phase)),
    isReplaced,
    restores: restores.filter(({ observed }) => hasRestoreEnded(observed?.phase)),
    expiringMs: ctx.since('expiring', it.observed?.expiring === true),
    leftMs: leftMs(it, { task, isReplaced }, ctx),
    now: clock.now(),
  };
}

/** Whether a restore goes on at whose end what it is of has other data. What is held may be so for a week. */
function replacesData(it: ReadonlyResource<'restore'>): boolean {
  const phase = it.observed?.phase;
  if (isDrill(it) || hasRestoreEnded(phase)) return false;
  return phase !== 'ready_to_switch' || it.desired.switch_requested;
}

/** Milliseconds for which it may still be where it is: a server that took its task up may let it wait for others. */
function leftMs({ observed }: Backup, { task, isReplaced }: Pick<World, 'task' | 'isReplaced'>, ctx: Context): number {
  const report = task && upToDate(task)?.phase;
  const isTaken = task !== undefined && (report !== undefined || observed?.phase === 'running');
  const waited = ctx.since('pending', !isTaken && !isReplaced);
  const { attempt, outcome } = taskState('backup', task);
  // the next attempt follows once a restore that goes on has ended
  const isGoingOn = isTaken && !(isReplaced && outcome === 'lost');
  const taken = ctx.since(`${report === 'running' ? 'sent' : 'taken'} ${attempt} ${observed?.uploads ?? 1}`, isGoingOn);
  return isTaken ? patienceMs(taskRow('backup').deadlineSeconds * 1000) - taken : patience.startMs - waited;
}

/** Of the last good backup of the same object by the same method. A task that was made keeps what was known then. */
function expectedBytes({ meta, desired }: Backup, view: TenantView): number | undefined {
  const good = view
    .by('backup', 'of', desired.of.id)
    .filter((other) => other.meta.id !== meta.id && other.desired.method === desired.method)
    .filter(({ observed }) => observed?.size_bytes !== undefined)
    .toSorted((a, b) => (a.desired.requested_at < b.desired.requested_at ? 1 : -1));
  return good[0]?.observed?.size_bytes;
}

/**
 * A later backup of the same object by the same method is good, and stays. For one that is proven, where a trial of a later
 * one failed, that has to be proven as well.
 */
function hasSuccessor(it: Backup, view: TenantView, now: Date): boolean {
  const { observed } = it;
  const later = laterGood(it, view, now);
  const shown = later.flatMap((other) => other.observed?.verification?.status ?? []);
  const isLastProven = observed?.verification?.status === 'proven' && shown.includes('not_proven');
  return later.length > 0 && (!isLastProven || shown.includes('proven'));
}

function laterGood({ meta, desired }: Backup, view: TenantView, now: Date): Backup[] {
  const ofOne = oldestFirst(view.by('backup', 'of', desired.of.id), now);
  return ofOne.slice(ofOne.findIndex((other) => other.meta.id === meta.id) + 1).filter(
    (other) =>
      other.desired.method === desired.method &&
      isGoodBackup(other.observed) &&
      // a base backup is worth something with its log alone
      (other.desired.method !== 'physical' ||
        isReadable(other, view.get('wal_archive', other.desired.archive_id ?? ''))) &&
      // that of a clone goes with the next step of the clone
      other.desired.clone_id === undefined &&
      isStaying(other),
  );
}

/** What is known once an upload was begun: the first one, or one in place of another. */
function begun(world: World, id: string): Observed {
  const { has_surplus: isAnother, ...before } = goesOn(world);
  return { ...before, upload_id: id, ...(isAnother === true && { uploads: (before.uploads ?? 1) + 1 }) };
}

function goesOnOrEnded(world: World): Observed {
  return hasBackupEnded(world.backup.observed?.phase) ? observedOf(world.backup) : goesOn(world);
}

function nextOf(world: World, { now, because, again }: Outcome, ctx: Context): Next {
  if (because !== undefined && again !== undefined) return { again, because };
  if (again !== undefined || now.phase !== (world.backup.observed?.phase ?? 'pending'))
    return { again: again ?? 0, because: 'what follows to be done' };
  if (because !== undefined) return { again: Math.max(1000, world.leftMs), because };
  const lookAt = nextLookAt(now);
  return lookAt === undefined ? { settled: true } : { again: dueIn(world, lookAt, ctx), because: 'its time to come' };
}

/** Milliseconds until the bucket is looked at again, or the backup is over. */
function dueIn({ backup }: World, look: number, { clock }: Context): number {
  const now = clock.now().getTime();
  const expiry = backup.desired.expires_at === undefined ? look : Date.parse(backup.desired.expires_at);
  return Math.max(1000, Math.min(look, expiry <= now ? look : expiry) - now);
}

/** By which a loss is told once: a backup that was found again may be lost again. */
function missingKey({ lost }: Observed): string {
  return `missing/${lost?.since ?? ''}`;
}

/** Failures that follow from the request of a user. */
const byRequest: readonly string[] = ['cancelled', 'archive_ended'];

/** Records how a backup ended, and notifies of one that failed. */
async function announce({ backup, database, volume }: World, now: Observed, ctx: Context): Promise<void> {
  const before = backup.observed?.phase;
  if (before === now.phase || !hasBackupEnded(now.phase)) return;
  const { name } = backup.desired;
  const isBad = now.phase === 'failed' && !byRequest.includes(now.error?.code ?? '');
  const message = `Backup of ${name}: ${now.error?.message ?? now.phase}`;
  const reason = `Backup${now.phase.charAt(0).toUpperCase()}${now.phase.slice(1)}`;
  const event = { type: isBad ? ('warning' as const) : ('normal' as const), reason, about: backup.meta.id, message };
  ctx.event(backup, event);
  const of = database ?? volume;
  if (of !== undefined) ctx.event(of, event);
  if (!isBad || isDeleting(backup)) return;
  const isMissing = before === 'completed';
  await ctx.notify(backup, `${backup.meta.id}/${isMissing ? missingKey(now) : 'failed'}`, {
    type: isMissing ? 'backup_missing' : 'backup_failed',
    severity: 'error',
    title: isMissing ? `A backup of ${name} is lost` : `The backup of ${name} failed`,
    message: now.error?.message ?? '',
  });
}

/** Records that a backup was tried, and notifies if it could not be restored. */
async function announceTrial({ backup }: World, { verification: now }: Observed, ctx: Context): Promise<void> {
  if (now === undefined || now.restore_id === backup.observed?.verification?.restore_id || isDeleting(backup)) return;
  const { name } = backup.desired;
  const isProven = now.status === 'proven';
  const message = isProven
    ? 'All of it could be restored and read'
    : `Restore ${now.restore_id}, which tried it, failed: ${now.error?.message ?? ''}`;
  const reason = isProven ? 'BackupProven' : 'BackupNotProven';
  ctx.event(backup, { type: isProven ? 'normal' : 'warning', reason, about: now.restore_id, message });
  if (isProven) return;
  await ctx.notify(backup, `${backup.meta.id}/not proven/${now.restore_id}`, {
    type: 'backup_not_proven',
    severity: 'error',
    title: `A backup of ${name} is not proven`,
    message,
  });
}

function deleting(world: World, { clock }: Context): Verdict<'backup'> {
  const { backup } = world;
  const now = observedOf(backup);
  const isNew = clock.now().getTime() - Date.parse(backup.meta.deletionRequestedAt ?? '') < patience.bucketMs;
  const message = 'What it has in its bucket is being removed';
  return {
    observed: now,
    conditions: [{ type: 'Ready', status: 'false', reason: 'Deleting', message }],
    next: {
      again: isNew ? retryMs : tidyMs,
      because: closed(world, 'removal') ?? 'its bucket to remove what it has of it',
    },
  };
}

/** One that goes on, or of which its bucket has something that is to go. */
function awaitsBucket(it: Backup): boolean {
  return !hasBackupEnded(it.observed?.phase) || isDeleting(it) || it.observed?.upload_id !== undefined;
}

function unfinished(view: TenantView, index: 'of' | 'server', id: string): string[] {
  return view
    .by('backup', index, id)
    .filter(({ observed }) => !hasBackupEnded(observed?.phase))
    .map(({ meta }) => meta.id);
}
