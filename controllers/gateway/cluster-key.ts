import { randomBytes } from 'node:crypto';
import { z } from 'zod';
import { Sealed } from '../../store/kinds/fields.ts';
import { keys } from '../../store/keys.ts';
import type { SealPlace, Sealer, Unsealer } from '../../store/seal.ts';
import type { Store } from '../../store/store.ts';

const place: SealPlace = { tenant: '', kind: 'meta', id: 'relay-key', path: 'key' };
const Stored = z.object({ key: Sealed });

/**
 * The key by which replicas recognize each other, 32 bytes. The first replica makes it; it is kept sealed in the store.
 *
 * @throws Error if the stored key cannot be opened: this replica does not have the key file of the others.
 */
export async function clusterKey(store: Store, sealer: Sealer, unsealer: Unsealer): Promise<Uint8Array> {
  const key = keys.meta('relay-key');
  const made = sealer.seal(randomBytes(32).toString('base64url'), place);
  const result = await store.txn({
    if: [{ key, is: 'absent' }],
    then: [{ put: key, value: JSON.stringify({ key: made } satisfies z.infer<typeof Stored>) }],
  });
  const stored = result.committed ? { key: made } : await read(store, key);
  return Buffer.from(unsealer.unseal(stored.key, place), 'base64url');
}

async function read(store: Store, key: string): Promise<z.infer<typeof Stored>> {
  const entry = await store.get(key);
  if (entry === undefined) throw new Error(`Key of the cluster vanished while it was read: ${key}`);
  return Stored.parse(JSON.parse(entry.value));
}
