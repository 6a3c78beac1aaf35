import { keys } from './keys.ts';

/** Where the era of the store's history is that began last: a name that no other era has. */
export const eraKey = keys.meta('era');

/** The era of the store's history that began last; `undefined`: the mirror shows none. */
export function presentEra(mirror: { key(key: string): { value: string } | undefined }): string | undefined {
  return mirror.key(eraKey)?.value;
}
