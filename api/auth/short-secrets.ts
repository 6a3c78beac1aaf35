import { createHmac, timingSafeEqual } from 'node:crypto';
import { z } from 'zod';
import { keys } from '../../store/keys.ts';
import { Sealed } from '../../store/kinds/fields.ts';
import type { SealPlace } from '../../store/seal.ts';
import type { ApiDependencies } from '../ground/dependencies.ts';

const place: SealPlace = { tenant: '*', kind: 'meta', id: 'short-secrets', path: 'key' };
const Stored = z.object({ key: Sealed });

/**
 * Hashes secrets that are too short for a plain hash. A reader of the store who does not have the key file cannot find
 * them by trying all.
 */
export interface ShortSecrets {
  /** `of` names what the secret belongs to: its hash matches nothing else. */
  hash(of: string, secret: string): string;
  /** Compares in constant time. */
  matches(hash: string, of: string, secret: string): boolean;
}

/**
 * Uses the 32-byte key of the installation, which the first replica makes. @throws Error if the key cannot be unsealed.
 */
export async function createShortSecrets({
  store,
  sealer,
  unsealer,
  random,
}: Pick<ApiDependencies, 'store' | 'sealer' | 'unsealer' | 'random'>): Promise<ShortSecrets> {
  const record = keys.meta('short-secrets');
  const made = { key: sealer.seal(random.bytes(32).toString('base64url'), place) };
  await store.txn({ if: [{ key: record, is: 'absent' }], then: [{ put: record, value: JSON.stringify(made) }] });
  const stored = await store.get(record);
  if (stored === undefined) throw new Error(`Key of short secrets vanished while it was read: ${record}`);
  const key = Buffer.from(unsealer.unseal(Stored.parse(JSON.parse(stored.value)).key, place), 'base64url');
  const digest = (of: string, secret: string): Buffer => createHmac('sha256', key).update(`${of}\0${secret}`).digest();
  return {
    hash: (of, secret) => digest(of, secret).toString('base64url'),
    matches(hash, of, secret) {
      const known = Buffer.from(hash, 'base64url');
      const actual = digest(of, secret);
      return known.length === actual.length && timingSafeEqual(known, actual);
    },
  };
}
