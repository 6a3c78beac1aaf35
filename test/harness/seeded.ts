import type { Random } from '../../api/ground/random.ts';

/** Pseudo-random numbers that follow from a seed: the same seed, the same run. */
export interface Seeded extends Random {
  /** Uniform in [0, 1). */
  uniform: () => number;
  /** A source of its own, so that one user's draws do not shift another's. */
  fork: () => Seeded;
}

/** By mulberry32, which is good enough to spread and no secret. */
export function seeded(seed: number): Seeded {
  let state = seed | 0;
  const uniform = (): number => {
    state = (state + 0x6d2b79f5) | 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
  };
  const bytes = (count: number): Buffer =>
    Buffer.from(Array.from({ length: count }, () => Math.floor(uniform() * 256)));
  return {
    uniform,
    bytes,
    id() {
      const raw = bytes(16);
      raw.writeUInt8((raw.readUInt8(6) & 0x0f) | 0x40, 6);
      raw.writeUInt8((raw.readUInt8(8) & 0x3f) | 0x80, 8);
      const hex = raw.toString('hex');
      return [hex.slice(0, 8), hex.slice(8, 12), hex.slice(12, 16), hex.slice(16, 20), hex.slice(20)].join('-');
    },
    fork: () => seeded(Math.floor(uniform() * 2 ** 32)),
  };
}
