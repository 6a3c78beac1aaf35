import type { Amount } from '../../store/usage.ts';

/** What transactions under way will store, held until the mirror shows it. */
export interface Reservations {
  /** The reserved amount of a scope, by its name. */
  of(name: string): Amount;
  /** Holds the amounts until `isOver` returns true; it is called from time to time. */
  add(adds: ReadonlyMap<string, Amount>, isOver: () => boolean): void;
}

interface Reservation {
  adds: ReadonlyMap<string, Amount>;
  isOver(): boolean;
}

/** The reservations of one replica; as many as it has requests under way. */
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
