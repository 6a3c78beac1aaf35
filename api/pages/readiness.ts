import type { Clock } from '../../time/clock.ts';
import type { Mirror } from '../../store/mirror.ts';
import type { Store } from '../../store/store.ts';
import { serviceUnavailable, storeFull } from '../ground/api-error.ts';
import type { ApiError } from '../ground/api-error.ts';
import { toApiError } from '../http/to-api-error.ts';

/** How long the last look at the store's room is used. */
const roomMs = 2000;

interface Dependencies {
  store: Pick<Store, 'size'>;
  mirror: Pick<Mirror, 'isReady'>;
  clock: Clock;
  fresh: () => Promise<void>;
  /** The server is closing: it still answers requests, but should get no new ones. */
  isDraining: () => boolean;
}

/**
 * Judges whether a load balancer should send requests to this replica: its mirror is current and a write has room.
 * Returns the reason if not, after at most 2 s. The room is read in the background, for the next call.
 */
export function createReadiness({ store, mirror, clock, fresh, isDraining }: Dependencies) {
  let isFull = false;
  let look: { at: number; isOver: boolean } | undefined;
  const lookAtRoom = async (): Promise<void> => {
    const now = clock.monotonic();
    if (look !== undefined && (!look.isOver || now - look.at < roomMs)) return;
    const own = { at: now, isOver: false };
    look = own;
    try {
      isFull = (await store.size()).room === 0;
    } catch {
      // an unavailable store is detected by `fresh`
    } finally {
      own.isOver = true;
    }
  };
  return async (): Promise<ApiError | undefined> => {
    if (isDraining()) return serviceUnavailable('This replica is closing');
    if (!mirror.isReady) return serviceUnavailable('This replica is starting');
    void lookAtRoom();
    try {
      await fresh();
    } catch (error) {
      return toApiError(error) ?? serviceUnavailable('This replica failed', { cause: error });
    }
    return isFull ? storeFull() : undefined;
  };
}
