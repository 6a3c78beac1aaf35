import { randomBytes, randomUUID } from 'node:crypto';

/** Randomness as an argument. Both are unguessable. */
export interface Random {
  id(): string;
  bytes(count: number): Buffer;
}

export const systemRandom: Random = { id: () => randomUUID(), bytes: (count) => randomBytes(count) };
