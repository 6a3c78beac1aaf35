import type { ObservedOf } from '../../store/kinds/kinds.ts';
import { plainCopy } from '../../store/plain-copy.ts';
import type { ReadonlyResource } from '../../store/resource.ts';
import type { probeBucket } from '../../network/bucket-probe.ts';
import type { Context, Controller, Verdict } from '../runtime/controller.ts';
import type { BackupBucket } from '../backup/bucket.ts';
import type { BucketPlace } from '../../network/bucket.ts';
import { limits } from '../runtime/limits.ts';
import { bucketPlace } from './place.ts';
import type { KeyOpener } from './place.ts';
import { conditionsOf, dueIn, observedAfter, pauseAfter } from './states.ts';
import type { Found } from './states.ts';

type Destination = ReadonlyResource<'backup_destination'>;
type Observed = ObservedOf<'backup_destination'>;

export interface DestinationSettings {
  secrets: KeyOpener;
  probe: typeof probeBucket;
  bucket: Pick<BackupBucket, 'sweep'>;
}

/**
 * An upload that was begun so long ago goes on no more, in milliseconds: three attempts of a day each send to it at most, and
 * wait for their turn.
 */
const forgottenMs = 7 * 24 * 60 * 60_000;

/**
 * Probes each bucket that backups go to: after each change, every hour, and sooner while it cannot be used. The
 * condition `Reachable` is the circuit breaker of the destination: while it is false, nothing is sent there but probes,
 * and removals where the bucket answers.
 */
export function backupDestinationController({
  secrets,
  probe,
  bucket,
}: DestinationSettings): Controller<'backup_destination'> {
  return {
    name: 'destination',
    kind: 'backup_destination',
    concurrency: limits.buckets.atOnce,
    shareOf: ({ desired }) => desired.endpoint ?? '',
    reads: ['settings'],
    children: [],
    notifies: ['backup_destination_failed', 'backup_destination_works'],
    wakes: [],
    async reconcile(it, ctx) {
      const due = dueIn(it, ctx.clock.now());
      if (due > 0 && it.observed !== undefined) return verdict(plainCopy<Observed>(it.observed), due);
      const observed = observedAfter(it, await look(it, ctx), ctx.clock.now());
      await announce(it, observed, ctx);
      return verdict(observed, pauseAfter(observed.failures));
    },
  };

  async function look(it: Destination, ctx: Context): Promise<Found> {
    const place = bucketPlace(it, ctx.view, secrets);
    if ('trouble' in place) return { trouble: { ...place.trouble, isPassing: false }, isClockOff: false };
    const found = await probe(place, it.meta.id, ctx.signal);
    if (found.trouble === undefined) await sweep(it, place, ctx);
    return found;
  }

  /** Gives up what was begun by backups that nothing knows of any more. */
  async function sweep({ meta }: Destination, place: BucketPlace, ctx: Context): Promise<void> {
    const before = new Date(ctx.clock.now().getTime() - forgottenMs);
    await bucket.sweep(place, `${meta.tenant}/`, before, ctx.signal).catch((error: unknown) => {
      ctx.signal.throwIfAborted();
      ctx.log.warn({ err: error }, 'Cannot look for unfinished uploads in a bucket: the next probe looks again');
    });
  }
}

function verdict(observed: Observed, due: number): Verdict<'backup_destination'> {
  const next = { again: due, because: 'its bucket to be usable again' } as const;
  return { observed, conditions: conditionsOf(observed), next };
}

/** Notifies once when a bucket that was usable is so no more, and once when it is again. */
async function announce(it: Destination, { phase, trouble }: Observed, ctx: Context): Promise<void> {
  const before = it.observed?.phase;
  if (before === undefined || phase === undefined || before === phase) return;
  const { name } = it.desired;
  const key = `${it.meta.id}/${phase}/${it.meta.observedRevision ?? 0}`;
  if (phase === 'unreachable')
    await ctx.notify(it, key, {
      type: 'backup_destination_failed',
      severity: 'error',
      title: `Backups cannot go to ${name}`,
      message: trouble?.message ?? '',
    });
  else
    await ctx.notify(it, key, {
      type: 'backup_destination_works',
      severity: 'info',
      title: `Backups can go to ${name} again`,
      message: 'Its bucket was written to, read, listed and deleted from',
    });
}
