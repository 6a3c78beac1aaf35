import { getHeapStatistics } from 'node:v8';
import type { Logger } from 'pino';
import type { Clock } from '../../time/clock.ts';
import type { Store, StoreSize } from '../../store/store.ts';

/** What the installation can take: it depends on the memory of this replica and the room of the store. */
export interface Capacity {
  /** Bytes that all tenants together may store. */
  storedBytes: number;
  /** Bytes that all requests together may write in a minute. */
  writtenBytesPerMinute: number;
  /** Free share of the store, 0 to 1, history included. */
  freeShare: number;
}

/** Share of the heap for the mirror: while it is filled again, it holds everything twice for a moment. */
const shareOfHeap = 0.3;
/** Share of the store for live data. The rest is for history, and for room in the store's file that is never freed. */
const shareOfStore = 0.35;
/**
 * Share of the store that one minute of writes may take: compaction runs once a minute and keeps up to a fifth of the
 * store as history.
 */
const shareOfMinute = 0.08;
const lookEveryMs = 5_000;

/** What a store of that size and a heap of that limit can take. Pure. */
export function capacityOf(heapBytes: number, { bytes, room }: StoreSize): Capacity {
  const whole = bytes + room;
  return {
    storedBytes: Math.floor(Math.min(heapBytes * shareOfHeap, whole * shareOfStore)),
    writtenBytesPerMinute: Math.floor(whole * shareOfMinute),
    freeShare: whole === 0 ? 0 : Number.isFinite(room) ? room / whole : 1,
  };
}

/** The capacity of the installation. It reads the size of the store when asked, at most every few seconds. */
export interface CapacityWatch {
  /** The last known value; starts a new reading if one is due. */
  readonly now: Capacity;
  /** Resolves when the size was read once more. */
  look(): Promise<void>;
}

export function watchCapacity({
  store,
  clock,
  log,
}: {
  store: Pick<Store, 'size'>;
  clock: Clock;
  log: Logger;
}): CapacityWatch {
  const heapBytes = getHeapStatistics().heap_size_limit;
  let seen = capacityOf(heapBytes, { bytes: 0, room: Infinity });
  let nextAt = 0;
  const look = async (): Promise<void> => {
    nextAt = clock.monotonic() + lookEveryMs;
    try {
      seen = capacityOf(heapBytes, await store.size());
    } catch (error) {
      log.warn({ err: error }, 'Cannot read the size of the store: the last known size is used');
    }
  };
  return {
    get now() {
      if (clock.monotonic() >= nextAt) void look();
      return seen;
    },
    look,
  };
}
