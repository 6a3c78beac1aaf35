import type { Clock } from '../../time/clock.ts';
import type { Mirror } from '../../store/mirror.ts';
import type { Revision } from '../../store/revision.ts';
import type { Store } from '../../store/store.ts';
import { createFreshness, notFollowing, patienceMs } from './freshness.ts';

/** For how long a proof that the mirror was current lets writes be decided from it. */
const provenMs = 5000;

/** How far the mirror may be behind the store, for those who ask it. */
export interface Nearness {
  /** Resolves when the mirror shows everything that was committed before the call. @throws ApiError 503 after 2 s. */
  fresh: () => Promise<void>;
  /**
   * Resolves when the mirror shows everything that this replica committed before the call, and was current at some
   * moment of the last 5 s. It asks the store only if nothing else proved the latter. @throws ApiError 503 after 2 s.
   */
  near: () => Promise<void>;
  /** This replica has committed a transaction, which it sent at `sentAt` (monotonic). */
  committed: (revision: Revision, sentAt: number) => void;
  /** The store did not answer: what was proven before does not count any more. */
  unanswered: () => void;
}

/** What was committed last. `incarnation`: that of the history which the revision belongs to. */
interface Committed {
  revision: Revision;
  sentAt: number;
  incarnation: string;
}

/**
 * A mirror that shows a transaction of this replica was current when that transaction was sent: everything committed
 * before has a lower revision. So a replica that writes needs no other proof.
 */
export function createNearness(
  store: Pick<Store, 'revision' | 'incarnation'>,
  mirror: Pick<Mirror, 'applied' | 'reached'>,
  clock: Clock,
): Nearness {
  const look = createFreshness(store, mirror, clock);
  let provenAt = Number.NEGATIVE_INFINITY;
  let unansweredAt = Number.NEGATIVE_INFINITY;
  let last: Committed | undefined;

  const prove = (at: number): void => {
    if (at > provenAt && at > unansweredAt) provenAt = at;
  };
  const fresh = async (): Promise<void> => {
    const began = clock.monotonic();
    await look();
    prove(began);
  };

  return {
    fresh,
    async near() {
      const own = last;
      if (own !== undefined && own.incarnation === store.incarnation) {
        if (mirror.applied < own.revision) await inTime((signal) => mirror.reached(own.revision, signal), clock);
        prove(own.sentAt);
      }
      // the mirror is at revision 0 while it has another history than the store
      if (mirror.applied === 0 || clock.monotonic() - provenAt > provenMs) await fresh();
    },
    unanswered() {
      provenAt = Number.NEGATIVE_INFINITY;
      unansweredAt = clock.monotonic();
    },
    committed(revision, sentAt) {
      const { incarnation } = store;
      if (last === undefined || last.incarnation !== incarnation || revision > last.revision)
        last = { revision, sentAt, incarnation };
    },
  };
}

/** @throws ApiError 503 after 2 s */
async function inTime(run: (signal: AbortSignal) => Promise<void>, clock: Clock): Promise<void> {
  const patience = new AbortController();
  const cancel = clock.timer(patienceMs, () => patience.abort(notFollowing()));
  try {
    await run(patience.signal);
  } finally {
    cancel();
  }
}
