import type { Clock } from '../store/clock.ts';
import type { Mirror } from '../store/mirror.ts';
import type { Store } from '../store/store.ts';
import { serviceUnavailable, storeFull } from './api-error.ts';
import type { ApiError } from './api-error.ts';
import { toApiError } from './to-api-error.ts';

/** How long an answer about the room of the store holds. */
const roomMs = 2000;

interface Dependencies {
  store: Pick<Store, 'size'>;
  mirror: Pick<Mirror, 'isReady'>;
  clock: Clock;
  fresh: () => Promise<void>;
  /** The server is closing: it answers what comes, and wants no more. */
  isDraining: () => boolean;
}

/**
 * Tells whether requests are well sent to this replica: it is current now, and a write would have room. Answers with the
 * reason if not, after 2 s at most. The room is looked up beside the answer, for the next one.
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
      // a store that does not answer is found out by reading
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
