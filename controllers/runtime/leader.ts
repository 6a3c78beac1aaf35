import type { Logger } from 'pino';
import { wait, type Clock } from '../../time/clock.ts';
import { isConflict, isUnavailable } from '../../store/errors.ts';
import { keys } from '../../store/keys.ts';
import type { Mirror } from '../../store/mirror.ts';
import { earlierReplica } from '../../store/replicas.ts';
import type { Revision } from '../../store/revision.ts';
import type { Guard, Store } from '../../store/store.ts';
import { aborted } from './aborted.ts';
import { limits } from './limits.ts';
import { unattendedLog } from './unattended.ts';

/** One uninterrupted leadership. */
export interface Term {
  /** Revision at which the leader's key was written. It never moves within a term. */
  readonly epoch: Revision;
  /** Guard of every transaction of the term: it fails once the term is over, even if the holder does not know yet. */
  readonly fence: Guard;
  /** Aborts when the term is over or may be. */
  readonly signal: AbortSignal;
}

export interface Candidate {
  store: Store;
  mirror: Mirror;
  clock: Clock;
  random: () => number;
  log: Logger;
  /** Name of the leadership: `leader/<name>`. */
  name: string;
  /** Id of this replica, for display. */
  replica: string;
}

/**
 * Leads whenever it can, until `signal` aborts: calls `lead` for each term, and waits for its end before the next term.
 *
 * The key is written once per term and only its lease is renewed, so its revision is the epoch and the fence. Safety
 * comes from the fence; the signal of a term, which aborts before the lease can expire, only saves useless work.
 *
 * While a replica of an earlier release runs, which could not read what this one writes, it is left to lead: agents that
 * are connected to it would not get new instances, and would remove those that they got from this replica.
 *
 * @param lead must return soon after the signal of its term aborted.
 */
export async function campaign(
  candidate: Candidate,
  lead: (term: Term) => Promise<void>,
  signal: AbortSignal,
): Promise<void> {
  const { clock, random, log, mirror } = candidate;
  const key = keys.leader(candidate.name);
  await Promise.race([mirror.ready, aborted(signal)]);
  const isOver = (): boolean => signal.aborted;
  let heldBackBy: string | undefined;
  const logUnattended = unattendedLog(mirror, candidate.replica, log);
  while (!isOver()) {
    let pause: number = limits.leader.jitterMs;
    const earlier = earlierReplica(mirror);
    if (earlier !== heldBackBy) logHeldBack(log, earlier);
    heldBackBy = earlier;
    logUnattended();
    try {
      if (mirror.key(key) === undefined && earlier === undefined) await serve(candidate, lead, signal);
    } catch (error) {
      pause = limits.leader.failureMs;
      if (!isUnavailable(error) && !isConflict(error))
        log.error({ err: error }, 'Cannot stand for leader: this replica tries again');
    }
    if (isOver()) return;
    await vacancy(candidate, key, signal);
    await wait(clock, random() * pause, signal).catch(() => undefined);
  }
}

function logHeldBack(log: Logger, earlier: string | undefined): void {
  if (earlier === undefined) log.info('No replica of an earlier release runs any more: this one may lead');
  else
    log.info(
      { earlier, advice: 'Upgrade that replica, or stop it' },
      'A replica of an earlier release runs and could not read what this one writes: this one does not lead',
    );
}

/** Tries to take the key; leads while it is ours. */
async function serve(
  { store, mirror, log, name, replica }: Candidate,
  lead: (term: Term) => Promise<void>,
  signal: AbortSignal,
): Promise<void> {
  const key = keys.leader(name);
  const lease = await store.lease(limits.leader.ttlMs);
  const over = new AbortController();
  const end = (why: string) => (): void => over.abort(new Error(`Leadership of ${name} ended: ${why}`));
  const onLost = end('lease was lost');
  const onStop = end('replica is stopping');
  const onReplaced = end('key was replaced');
  let unsubscribe = (): void => undefined;
  try {
    const taken = await store.txn({
      if: [{ key, is: 'absent' }],
      then: [{ put: key, value: JSON.stringify({ replica }), lease: lease.id }],
    });
    if (!taken.committed) return;
    const epoch = taken.revision;
    lease.lost.addEventListener('abort', onLost, { once: true });
    signal.addEventListener('abort', onStop, { once: true });
    if (lease.lost.aborted) onLost();
    if (signal.aborted) onStop();
    // The last writes of the previous leader must be seen before anything is decided.
    await mirror.reached(epoch, over.signal);
    const look = (): void => {
      if (mirror.key(key)?.revision !== epoch) onReplaced();
    };
    unsubscribe = mirror.subscribeKeys((change) => {
      if (change.key === key) look();
    });
    look();
    log.info({ epoch, leadership: name }, 'Leading');
    await lead({ epoch, fence: { key, is: 'at', revision: epoch }, signal: over.signal });
  } catch (error) {
    if (!over.signal.aborted) throw error;
  } finally {
    unsubscribe();
    lease.lost.removeEventListener('abort', onLost);
    signal.removeEventListener('abort', onStop);
    if (over.signal.aborted) log.info({ reason: String(over.signal.reason) }, 'Not leading any more');
    // So the next leader need not wait for the expiry. If the store does not answer, it must.
    await lease.revoke().catch((error: unknown) => log.debug({ err: error }, 'Lease was not revoked'));
  }
}

/** Resolves when the key seems to be for this candidate, or after `limits.leader.retryMs` in case no change was seen. */
async function vacancy({ clock, mirror }: Candidate, key: string, signal: AbortSignal): Promise<void> {
  const vacant = new AbortController();
  const look = (): void => {
    if (mirror.isReady && mirror.key(key) === undefined && earlierReplica(mirror) === undefined) vacant.abort();
  };
  // The leader's key, or that of an earlier replica, is gone.
  const unsubscribe = mirror.subscribeKeys((change) => {
    if (change.after === undefined) look();
  });
  const stop = (): void => vacant.abort();
  signal.addEventListener('abort', stop, { once: true });
  look();
  await wait(clock, limits.leader.retryMs, vacant.signal).catch(() => undefined);
  signal.removeEventListener('abort', stop);
  unsubscribe();
}
