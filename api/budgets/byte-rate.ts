import type { Clock } from '../../time/clock.ts';

/** The rate at which a scope writes. It is in memory: each replica counts for itself. */
export interface ByteRate {
  /**
   * Milliseconds until `key` may write again under the bound `perMinute`, of which the share `keptBack` (0 to 1) stays
   * free; 0: now. A write may exceed the bound, and the excess must drain first.
   */
  waitMs(key: string, perMinute: number, keptBack: number): number;
  /** Counts written bytes. */
  add(key: string, perMinute: number, bytes: number): void;
  /** Written bytes that have not drained yet: for a steady writer, those of about the last minute. */
  level(key: string): number;
}

interface Level {
  bytes: number;
  perMs: number;
  at: number;
}

const maxLevels = 50_000;

/** Levels that drain by their bound each minute. A bound of 0 means no bound: then nothing is counted. */
export function createByteRate(clock: Clock): ByteRate {
  const levels = new Map<string, Level>();

  const drained = ({ bytes, perMs, at }: Level, now: number): number => Math.max(0, bytes - (now - at) * perMs);

  const levelOf = (key: string): number => {
    const known = levels.get(key);
    return known === undefined ? 0 : drained(known, clock.monotonic());
  };

  /** An empty level is dropped, as it equals none; if no level is empty, the oldest is dropped. */
  const makeRoom = (now: number): void => {
    for (const [key, level] of levels) if (drained(level, now) === 0) levels.delete(key);
    const [oldest] = levels.keys();
    if (levels.size >= maxLevels && oldest !== undefined) levels.delete(oldest);
  };

  return {
    level: levelOf,
    waitMs(key, perMinute, keptBack) {
      if (perMinute === 0) return 0;
      const above = levelOf(key) - perMinute * (1 - keptBack);
      return above < 0 ? 0 : Math.max(1, Math.ceil((above * 60_000) / perMinute));
    },
    add(key, perMinute, bytes) {
      if (perMinute === 0) return;
      const now = clock.monotonic();
      if (!levels.has(key) && levels.size >= maxLevels) makeRoom(now);
      // writes that are never refused, such as deletions, make no caller wait for more than two minutes
      const level = Math.min(levelOf(key) + bytes, 2 * perMinute);
      levels.set(key, { bytes: level, perMs: perMinute / 60_000, at: now });
    },
  };
}
