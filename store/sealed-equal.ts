import { jsonEqual } from './json-equal.ts';
import type { SealedValue } from './kinds/define.ts';
import { isSealed } from './seal.ts';

/** Whether two secrets hold the same text. */
export type IsSame = (one: SealedValue, other: SealedValue) => boolean;

/**
 * Whether two values have the same JSON, in which secrets count by what they say: a new key may have sealed one of two copies
 * only. A secret is opened only where the ciphertexts differ.
 */
export function sealedEqual(a: unknown, b: unknown, isSame: IsSame): boolean {
  return jsonEqual(a, b, (one, other) => isSealed(one) && isSealed(other) && isSame(one, other));
}
