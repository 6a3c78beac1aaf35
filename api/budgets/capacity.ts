import { getHeapStatistics } from 'node:v8';
import type { Logger } from 'pino';
import type { Clock } from '../../store/clock.ts';
import type { Store, StoreSize } from '../../store/store.ts';

/** What the installation can take, by the memory of this replica and the room of the store. */
export interface Capacity {
  /** Bytes that all tenants together may store. */
  storedBytes: number;
  /** Bytes that all requests together may write in a minute. */
  writtenBytesPerMinute: number;
  /** Share of the store that is free, of 0 to 1: history included. */
  freeShare: number;
}

/** Share of the heap for the mirror: filling it again holds everything twice for a moment. */
const shareOfHeap = 0.3;
/** Share of the store for what is there now; the rest is for history and for what a file of a store never gives back. */
const shareOfStore = 0.35;
/** Share of the store that a minute of writes may take: history is looked at each minute, and a fifth of the store is kept of it. */
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

/** What the installation can take: looks at the store when it is asked, every few seconds at most. */
export interface CapacityWatch {
  /** As it was seen last; a look that is due begins. */
  readonly now: Capacity;
  /** Resolves when it was looked at once more. */
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
      log.warn({ err: error }, 'The size of the store is not known: what was seen last holds');
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
