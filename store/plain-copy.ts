import type { DeepReadonly } from './deep-readonly.ts';

/**
 * Copies plain data, so that the copy may be changed although the original is frozen. Every write copies what it changes,
 * and `structuredClone` takes five times as long, since it serialises.
 *
 * @param it values as JSON has them, and `undefined`; nothing refers to itself
 */
export function plainCopy<T>(it: T | DeepReadonly<T>): T {
  return copyOf(it) as T; // each part is copied as what it is
}

function copyOf(it: unknown): unknown {
  if (typeof it !== 'object' || it === null) return it;
  if (Array.isArray(it)) return it.map(copyOf);
  const copy: Record<string, unknown> = {};
  for (const [name, value] of Object.entries(it)) {
    // An assignment to this name would set the prototype.
    if (name === '__proto__') Object.defineProperty(copy, name, { ...field, value: copyOf(value) });
    else copy[name] = copyOf(value);
  }
  return copy;
}

const field = { writable: true, enumerable: true, configurable: true };
