import { createPrivateKey, generateKeyPairSync } from 'node:crypto';
import type { KeyObject } from 'node:crypto';
import { z } from 'zod';
import { hashControlKey, proveControl } from '../../agent-protocol/control-proof.ts';
import type { Occasion } from '../../agent-protocol/control-proof.ts';
import type { Clock } from '../../time/clock.ts';
import { committed } from '../../store/commit-failure.ts';
import { keys } from '../../store/keys.ts';
import { Sealed } from '../../store/kinds/fields.ts';
import type { Mirror } from '../../store/mirror.ts';
import type { SealPlace, Sealer, Unsealer } from '../../store/seal.ts';
import type { Entry, Guard, Store, TxnResult } from '../../store/store.ts';

/**
 * Keys that are kept: the newest ones, and each that was the newest within the time, up to the bound. An agent learns a key
 * only as it connects, and a connection may outlast many rotations. One that connected last before all of these needs a
 * join token.
 */
const kept = { newest: 8, forMs: 400 * 24 * 3_600_000, atMost: 500 } as const;
const attempts = 5;

const ControlKey = z.object({
  /** Ed25519, raw, base64url. */
  public: z.string(),
  private: Sealed,
  created_at: z.iso.datetime(),
});
/** Oldest first; the last one is the newest, which agents are to know. */
const Ring = z.object({ v: z.literal(1), keys: z.array(ControlKey).min(1) });
type Ring = z.infer<typeof Ring>;

interface Dependencies {
  store: Pick<Store, 'get' | 'txn'>;
  sealer: Sealer;
  clock: Clock;
}

const ringKey = keys.meta('control-keys');

/** Makes the first key by which the control plane proves itself to agents. Of several replicas, one makes it. */
export async function ensureControlKeys(deps: Dependencies): Promise<void> {
  await rotateControlKeys(deps, { olderThanMs: Number.POSITIVE_INFINITY });
}

/**
 * Adds a key if the newest one is older than `olderThanMs`, and drops those that are too old (`kept`). Agents learn the new key
 * at their next connection; until then the control plane proves itself by the one that they know. @throws conflict if one
 * of `guards` failed
 */
export async function rotateControlKeys(
  deps: Dependencies,
  { olderThanMs = 0, guards = [] }: { olderThanMs?: number; guards?: readonly Guard[] } = {},
): Promise<'rotated' | 'kept'> {
  for (let attempt = 1; ; attempt++) {
    const stored = await deps.store.get(ringKey);
    const ring = stored === undefined ? [] : Ring.parse(JSON.parse(stored.value)).keys;
    const newest = ring.at(-1);
    const now = deps.clock.now().getTime();
    if (newest !== undefined && now - Date.parse(newest.created_at) < olderThanMs) return 'kept';
    const result = await write(deps, stored, keptOf([...ring, newKey(deps)], now), guards);
    if (result.committed) return 'rotated';
    if (attempt === attempts) committed(result);
  }
}

/** The keys by which a replica proves itself to agents, as its mirror shows them. */
export class ControlKeys {
  readonly #mirror: Pick<Mirror, 'key'>;
  readonly #unsealer: Unsealer;
  #opened: { revision: number; ring: Ring['keys']; secrets: Map<string, KeyObject> } | undefined;

  constructor(mirror: Pick<Mirror, 'key'>, unsealer: Unsealer) {
    this.#mirror = mirror;
    this.#unsealer = unsealer;
  }

  /** The public key that agents are to know. @throws Error while the mirror shows none */
  get newest(): string {
    const newest = this.#read().ring.at(-1);
    if (newest === undefined) throw new Error('Keys of the control plane must not be empty');
    return newest.public;
  }

  /** Whether an agent that knows the key with that hash can be given a proof. @throws Error while the mirror shows no key */
  knows(keyHash: string): boolean {
    return this.#read().ring.some((it) => hashControlKey(it.public) === keyHash);
  }

  /**
   * The proof for an agent that knows the key with that hash. If that key was dropped, the proof is by another key,
   * which the agent refuses. @throws Error while the mirror shows no key, or if it cannot be unsealed
   */
  prove(keyHash: string | undefined, occasion: Occasion): ReturnType<typeof proveControl> {
    const { ring, secrets } = this.#read();
    const { newest } = this;
    const key = ring.find((it) => hashControlKey(it.public) === keyHash)?.public ?? newest;
    const secret = secrets.get(key) ?? this.#open(ring, key);
    secrets.set(key, secret);
    return proveControl({ public: key, private: secret }, newest, occasion);
  }

  #open(ring: Ring['keys'], x: string): KeyObject {
    const sealed = ring.find((it) => it.public === x)?.private;
    if (sealed === undefined) throw new Error('Key of the control plane must be in its ring');
    const d = this.#unsealer.unseal(sealed, placeOf(x));
    return createPrivateKey({ key: { kty: 'OKP', crv: 'Ed25519', x, d }, format: 'jwk' });
  }

  #read() {
    const entry = this.#mirror.key(ringKey);
    if (entry === undefined) throw new Error('The mirror does not show the keys of the control plane yet');
    if (this.#opened?.revision !== entry.revision) {
      const ring = Ring.parse(JSON.parse(entry.value)).keys;
      this.#opened = { revision: entry.revision, ring, secrets: new Map() };
    }
    return this.#opened;
  }
}

/** A key stops being the newest when the one behind it is made. */
function keptOf(ring: Ring['keys'], now: number): Ring['keys'] {
  const isKept = (_: unknown, at: number): boolean => {
    const next = ring[at + 1];
    return next === undefined || at >= ring.length - kept.newest || now - Date.parse(next.created_at) < kept.forMs;
  };
  return ring.filter(isKept).slice(-kept.atMost);
}

function newKey({ sealer, clock }: Dependencies): z.infer<typeof ControlKey> {
  const { x, d } = generateKeyPairSync('ed25519').privateKey.export({ format: 'jwk' });
  if (x === undefined || d === undefined) throw new Error('Generated key must be Ed25519');
  return { public: x, private: sealer.seal(d, placeOf(x)), created_at: clock.now().toISOString() };
}

function write(
  { store }: Dependencies,
  stored: Entry | undefined,
  ring: Ring['keys'],
  guards: readonly Guard[],
): Promise<TxnResult> {
  const guard: Guard =
    stored === undefined ? { key: ringKey, is: 'absent' } : { key: ringKey, is: 'at', revision: stored.modRevision };
  const value = JSON.stringify({ v: 1, keys: ring } satisfies Ring);
  return store.txn({ if: [...guards, guard], then: [{ put: ringKey, value }] });
}

/** Keys belong to the installation: no tenant can have this name. */
function placeOf(publicKey: string): SealPlace {
  return { tenant: '*', kind: 'control_key', id: publicKey, path: 'private' };
}
