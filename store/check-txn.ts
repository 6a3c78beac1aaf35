import { tooLarge } from './errors.ts';
import { limits } from './store.ts';
import type { Txn } from './store.ts';

/**
 * Refuses a transaction that some backend could not take, before any backend sees it.
 *
 * @throws TooLarge above {@link limits}; RangeError for a key that is empty, malformed or written twice, or for a guard
 *   at revision 0.
 */
export function checkTxn(txn: Txn): void {
  const operations = txn.if.length + txn.then.length;
  if (operations > limits.operations)
    throw tooLarge(`A transaction has at most ${limits.operations} guards and writes: got ${operations}`);
  let bytes = 0;
  // A failed guard reads its key in the same request, so the key counts twice.
  for (const guard of txn.if) {
    bytes += 2 * checkKey(guard.key);
    // 0 would mean "absent" to some backends and "never" to others.
    if (guard.is === 'at' && guard.revision < 1) throw new RangeError(`A guard is at a revision from 1: got 0`);
  }
  const written = new Set<string>();
  for (const write of txn.then) {
    const key = 'put' in write ? write.put : write.delete;
    bytes += checkKey(key) + ('put' in write ? checkValue(key, write.value) : 0);
    if (written.has(key)) throw new RangeError(`A transaction writes a key at most once: "${key}"`);
    written.add(key);
  }
  if (bytes > limits.txnBytes)
    throw tooLarge(`The keys and values of a transaction have at most ${limits.txnBytes} bytes: got ${bytes}`);
}

/** @throws RangeError if the key is empty or is no well-formed Unicode. */
function checkKey(key: string): number {
  if (key === '' || !key.isWellFormed()) throw new RangeError(`A key is non-empty, well-formed text: got "${key}"`);
  return Buffer.byteLength(key);
}

function checkValue(key: string, value: string): number {
  const bytes = Buffer.byteLength(value);
  if (bytes > limits.valueBytes)
    throw tooLarge(`A value has at most ${limits.valueBytes} bytes: got ${bytes} for "${key}"`);
  return bytes;
}
