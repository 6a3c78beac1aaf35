import { randomBytes, randomUUID } from 'node:crypto';

/** A source of random values, passed as an argument. Both methods return unguessable values. */
export interface Random {
  id(): string;
  bytes(count: number): Buffer;
}

export const systemRandom: Random = { id: () => randomUUID(), bytes: (count) => randomBytes(count) };
