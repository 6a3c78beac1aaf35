import { randomUUID } from 'node:crypto';

/** A random id (UUID version 4). */
export function randomId(): string {
  return randomUUID();
}
