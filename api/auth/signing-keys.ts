import { createPrivateKey, createPublicKey, generateKeyPairSync } from 'node:crypto';
import type { KeyObject } from 'node:crypto';
import { z } from 'zod';
import type { Clock } from '../../time/clock.ts';
import { committed } from '../../store/commit-failure.ts';
import { keys } from '../../store/keys.ts';
import { Sealed } from '../../store/kinds/fields.ts';
import type { SealPlace, Sealer, Unsealer } from '../../store/seal.ts';
import type { Entry, Guard, Store, TxnResult, Write } from '../../store/store.ts';
import type { Random } from '../ground/random.ts';

/** Life of a token. A key verifies for that much longer than it signs. */
export const tokenLifeMs = 24 * 3_600_000;
const skewMs = 60_000;
const attempts = 5;

const SigningKey = z.object({
  kid: z.string(),
  created_at: z.iso.datetime(),
  /** Ed25519, raw, base64url. */
  public: z.string(),
  private: Sealed,
});
/** Oldest first; the last key signs. */
const Ring = z.object({ v: z.literal(1), keys: z.array(SigningKey).min(1) });
type Ring = z.infer<typeof Ring>;

export interface SigningKeys {
  /** The key that signs, with its id. */
  current: { kid: string; key: KeyObject };
  /** Every key that verifies, by its id. */
  verifying: ReadonlyMap<string, KeyObject>;
}

interface Dependencies {
  store: Pick<Store, 'get' | 'txn'>;
  sealer: Sealer;
  clock: Clock;
  random: Random;
}

export const signingKeysKey = keys.meta('signing-keys');

/**
 * Returns the stored keys; makes the first key if there is none. Of several replicas that start at once, one makes it.
 */
export async function ensureSigningKeys(deps: Dependencies): Promise<string> {
  for (;;) {
    const stored = await deps.store.get(signingKeysKey);
    if (stored !== undefined) return stored.value;
    await write(deps, undefined, [newKey(deps)], {});
  }
}

export interface RotationOptions {
  /** Adds a key only if the signing key is at least that old; 0: always. */
  olderThanMs?: number;
  /** Added to the transaction. */
  guards?: readonly Guard[];
  /** Added to the transaction. */
  writes?: readonly Write[];
}

/**
 * Adds a key that signs from now on, if it is due, and removes the keys whose last token has expired. Every token stays
 * valid for its full life, and no replica needs a restart. @throws conflict if a guard of `guards` fails, or other
 * replicas are faster five times.
 */
export async function rotateSigningKeys(
  deps: Dependencies,
  { olderThanMs = 0, guards = [], writes = [] }: RotationOptions = {},
): Promise<'rotated' | 'dropped' | 'kept'> {
  for (let attempt = 1; ; attempt++) {
    const stored = await deps.store.get(signingKeysKey);
    const now = deps.clock.now().getTime();
    const ring = stored === undefined ? [] : Ring.parse(JSON.parse(stored.value)).keys;
    const inUse = ring.filter((_, at) => {
      const successor = ring[at + 1];
      return successor === undefined || now - Date.parse(successor.created_at) <= tokenLifeMs + skewMs;
    });
    const newest = ring.at(-1);
    const isDue = newest === undefined || now - Date.parse(newest.created_at) >= olderThanMs;
    if (!isDue && inUse.length === ring.length) return 'kept';
    const result = await write(deps, stored, isDue ? [...inUse, newKey(deps)] : inUse, { guards, writes });
    if (result.committed) return isDue ? 'rotated' : 'dropped';
    // another replica may have been faster; a failed guard of the caller does not pass by trying again
    if (attempt === attempts) committed(result);
  }
}

/** The ids and ages of the keys, without secrets, oldest first; the last one signs. */
export async function listSigningKeys(store: Pick<Store, 'get'>): Promise<{ kid: string; created_at: string }[]> {
  const stored = await store.get(signingKeysKey);
  if (stored === undefined) return [];
  return Ring.parse(JSON.parse(stored.value)).keys.map(({ kid, created_at }) => ({ kid, created_at }));
}

/** Unseals the stored keys. @throws Error if they cannot be read or unsealed: the API must not start without them. */
export function openSigningKeys(value: string, unsealer: Unsealer): SigningKeys {
  const ring = Ring.parse(JSON.parse(value)).keys;
  const newest = ring.at(-1);
  if (newest === undefined) throw new Error('Signing keys must not be empty');
  const secret = unsealer.unseal(newest.private, placeOf(newest.kid));
  const jwk = { kty: 'OKP', crv: 'Ed25519', x: newest.public, d: secret };
  return {
    current: { kid: newest.kid, key: createPrivateKey({ key: jwk, format: 'jwk' }) },
    verifying: new Map(ring.map((key) => [key.kid, publicKey(key.public)])),
  };
}

function newKey({ sealer, clock, random }: Dependencies): z.infer<typeof SigningKey> {
  const { privateKey } = generateKeyPairSync('ed25519');
  const { x, d } = privateKey.export({ format: 'jwk' });
  if (x === undefined || d === undefined) throw new Error('Generated key must be Ed25519');
  const kid = random.bytes(9).toString('base64url');
  return { kid, created_at: clock.now().toISOString(), public: x, private: sealer.seal(d, placeOf(kid)) };
}

async function write(
  { store }: Dependencies,
  stored: Entry | undefined,
  ringKeys: Ring['keys'],
  { guards = [], writes = [] }: Pick<RotationOptions, 'guards' | 'writes'>,
): Promise<TxnResult> {
  const ring: Ring = { v: 1, keys: ringKeys };
  const guard =
    stored === undefined
      ? ({ key: signingKeysKey, is: 'absent' } as const)
      : ({ key: signingKeysKey, is: 'at', revision: stored.modRevision } as const);
  return store.txn({ if: [...guards, guard], then: [{ put: signingKeysKey, value: JSON.stringify(ring) }, ...writes] });
}

/** Signing keys belong to the installation: no tenant can be named `*`. */
function placeOf(kid: string): SealPlace {
  return { tenant: '*', kind: 'signing_key', id: kid, path: 'private' };
}

function publicKey(x: string): KeyObject {
  return createPublicKey({ key: { kty: 'OKP', crv: 'Ed25519', x }, format: 'jwk' });
}
