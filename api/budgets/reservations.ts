import type { Amount } from '../../store/usage.ts';

/** What transactions under way will take, until the mirror shows that they did. */
export interface Reservations {
  /** What is promised to a scope, by its name. */
  of(name: string): Amount;
  /** Holds the amounts until `isOver`, which is asked from time to time. */
  add(adds: ReadonlyMap<string, Amount>, isOver: () => boolean): void;
}

interface Reservation {
  adds: ReadonlyMap<string, Amount>;
  isOver(): boolean;
}

/** Reservations of one replica. Their number is that of its requests and clones under way. */
export function createReservations(): Reservations {
  let all: Reservation[] = [];
  return {
    of(name) {
      const sum = { bytes: 0, objects: 0 };
      all = all.filter((it) => !it.isOver());
      for (const { adds } of all) {
        const share = adds.get(name);
        sum.bytes += share?.bytes ?? 0;
        sum.objects += share?.objects ?? 0;
      }
      return sum;
    },
    add(adds, isOver) {
      all.push({ adds, isOver });
    },
  };
}
