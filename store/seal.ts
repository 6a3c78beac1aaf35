import { createCipheriv, createDecipheriv, createHmac, randomBytes } from 'node:crypto';
import { committed } from './commit-failure.ts';
import { changeKeyFile, createKeyFile, keyFileVersion, readKeyFile } from './key-file.ts';
import type { KeySet } from './key-file.ts';
import { keys } from './keys.ts';
import type { SealedValue } from './kinds/define.ts';
import type { Store } from './store.ts';

/** Where a secret belongs; it is the authenticated data, so that a ciphertext moved elsewhere does not open. */
export interface SealPlace {
  tenant: string;
  kind: string;
  id: string;
  /** Path of the field, for example `config.env.TOKEN`. */
  path: string;
}

/** Encrypts fields. */
export interface Sealer {
  seal(plain: string, place: SealPlace): SealedValue;
}

/**
 * Decrypts fields: variables for the environment endpoint and for the agent that runs with them, the keys of the
 * installation, and stored answers of idempotent requests. Lint names the files that may have one.
 */
export interface Unsealer {
  /** @throws Error if the key is unknown or the value belongs elsewhere; never returns an empty value instead. */
  unseal(value: SealedValue, place: SealPlace): string;
}

/** Compares secrets, without showing them. */
export interface SealComparer {
  /** Whether both hold the same text, whichever keys they were sealed with. False for one that does not open. */
  isSame(tenant: string, one: SealedValue, other: SealedValue): boolean;
}

/** Renews what older keys sealed, without showing it. */
export interface Resealer {
  /** Whether the value was sealed with another key than the primary one. */
  needsReseal(value: SealedValue): boolean;
  /**
   * The JSON of a record with every sealed value in it, at any depth, sealed with the primary key for the same place;
   * `undefined` if all already are. Copies of one value stay equal, in whichever records they are. @throws Error if one
   * does not open.
   */
  resealRecord(tenant: string, json: string): string | undefined;
  /** Makes a new primary key and keeps the older ones. Other processes read the file again when it has changed. */
  addKey(): Promise<void>;
}

/** Seals the secrets of an object for its copy, without showing them. */
export interface Transplanter {
  /**
   * Seals a value of the object `from` for the same field of the object `to`.
   *
   * @throws Error if the value belongs to another object, or does not open.
   */
  transplant(value: SealedValue, of: { tenant: string; kind: string; from: string; to: string }): SealedValue;
}

export interface KeyringOptions {
  /** The key file; it is made if the store holds nothing sealed yet. */
  path: string;
  store: Store;
  /** Is told once why a file that has changed since cannot be read. The keys that are known go on to be used. */
  onFault?: (error: unknown) => void;
}

/**
 * Opens the keys, and proves with a value in the store that they are the right ones.
 *
 * @throws Error if they are not, if the file is gone or malformed, or if others may read it.
 */
export async function openKeyring({
  path,
  store,
  onFault = () => undefined,
}: KeyringOptions): Promise<Sealer & Unsealer & SealComparer & Resealer & Transplanter> {
  const canary = await store.get(keys.meta('seal-canary'));
  if (keyFileVersion(path) === undefined) {
    if (canary)
      throw new Error(
        `Key file is missing, but the store's secrets were sealed with its keys: ${path}. Restore it from a backup`,
      );
    const primary = newKeyId();
    await createKeyFile(path, { primary, keys: new Map([[primary, randomBytes(32)]]) });
  }
  const ring = new Keyring(path, onFault);
  await proveKeys(ring, path, store);
  return ring;
}

const canaryTenant = '';
const canaryPlace: SealPlace = { tenant: canaryTenant, kind: 'meta', id: 'seal-canary', path: 'value' };
const canaryText = 'setpoint';

async function proveKeys(ring: Keyring, path: string, store: Store): Promise<void> {
  const key = keys.meta('seal-canary');
  for (let attempt = 1; ; attempt++) {
    const entry = await store.get(key);
    if (entry) expectOpen(ring, path, entry.value);
    const value = entry
      ? ring.resealRecord(canaryTenant, entry.value)
      : JSON.stringify(ring.seal(canaryText, canaryPlace));
    if (value === undefined) return;
    const result = await store.txn({
      if: [entry ? { key, is: 'at', revision: entry.modRevision } : { key, is: 'absent' }],
      then: [{ put: key, value }],
    });
    // Another process that starts was faster: its value must open, too.
    if (result.committed || attempt === 3) return void committed(result);
  }
}

function expectOpen(ring: Keyring, path: string, canary: string): void {
  try {
    const value: unknown = JSON.parse(canary);
    if (isSealed(value) && ring.unseal(value, canaryPlace) === canaryText) return;
  } catch (cause) {
    throw new Error(
      `Key file does not open the secrets of this store: ${path}. Restore the one that belongs to the store`,
      { cause },
    );
  }
  throw new Error(
    `Key file does not open the secrets of this store: ${path}. Restore the one that belongs to the store`,
  );
}

class Keyring implements Sealer, Unsealer, Resealer, Transplanter {
  readonly #path: string;
  readonly #onFault: (error: unknown) => void;
  #set: KeySet;
  #version: string | undefined;
  /** Why the file could not be read last; `undefined`: it could. */
  #fault: string | undefined;

  constructor(path: string, onFault: (error: unknown) => void) {
    this.#path = path;
    this.#onFault = onFault;
    this.#version = keyFileVersion(path);
    const set = readKeyFile(path);
    if (!set) throw new Error(`Key file is gone: ${path}`);
    this.#set = set;
  }

  seal(plain: string, { tenant, kind, id, path }: SealPlace): SealedValue {
    return this.#seal(plain, tenant, `${kind}/${id}/${path}`);
  }

  unseal(value: SealedValue, { tenant, kind, id, path }: SealPlace): string {
    const place = `${kind}/${id}/${path}`;
    if (value.for !== place) throw new Error(`Cannot unseal a value of another place: ${value.for} is not ${place}`);
    return this.#unseal(value, tenant);
  }

  transplant(value: SealedValue, { tenant, kind, from, to }: Parameters<Transplanter['transplant']>[1]): SealedValue {
    const place = `${kind}/${from}/`;
    if (!value.for.startsWith(place))
      throw new Error(`Cannot transplant a value of another object: ${value.for} is not of ${kind}/${from}`);
    return this.#seal(this.#unseal(value, tenant), tenant, `${kind}/${to}/${value.for.slice(place.length)}`);
  }

  isSame(tenant: string, one: SealedValue, other: SealedValue): boolean {
    if (one.$sealed === other.$sealed) return true;
    try {
      return this.#unseal(one, tenant) === this.#unseal(other, tenant);
    } catch {
      return false;
    }
  }

  needsReseal(value: SealedValue): boolean {
    return partsOf(value).keyId !== this.#current().primary;
  }

  resealRecord(tenant: string, json: string): string | undefined {
    let renewed = 0;
    const record: unknown = JSON.parse(json, (_, value: unknown) => {
      if (!isSealed(value) || !this.needsReseal(value)) return value;
      renewed++;
      return { ...value, ...this.#seal(this.#unseal(value, tenant), tenant, value.for, value) };
    });
    return renewed === 0 ? undefined : JSON.stringify(record);
  }

  async addKey(): Promise<void> {
    this.#set = await changeKeyFile(this.#path, (set) => {
      const primary = newKeyId();
      return { primary, keys: new Map([...set.keys, [primary, randomBytes(32)]]) };
    });
    this.#version = keyFileVersion(this.#path);
  }

  /** `former`: the value of an older key that is sealed anew. */
  #seal(plain: string, tenant: string, place: string, former?: SealedValue): SealedValue {
    const { primary } = this.#current();
    const key = this.#key(primary);
    const nonce = former === undefined ? randomBytes(nonceBytes) : nonceAfter(former, key);
    const cipher = createCipheriv('aes-256-gcm', key, nonce).setAAD(boundTo(tenant, place));
    const sealed = Buffer.concat([cipher.update(plain, 'utf8'), cipher.final(), cipher.getAuthTag()]);
    return { $sealed: `${primary}.${nonce.toString('base64url')}.${sealed.toString('base64url')}`, for: place };
  }

  #unseal(value: SealedValue, tenant: string): string {
    const { keyId, nonce, sealed } = partsOf(value);
    const key = this.#key(keyId);
    try {
      const decipher = createDecipheriv('aes-256-gcm', key, nonce, { authTagLength: tagBytes });
      decipher.setAAD(boundTo(tenant, value.for)).setAuthTag(sealed.subarray(-tagBytes));
      return Buffer.concat([decipher.update(sealed.subarray(0, -tagBytes)), decipher.final()]).toString('utf8');
    } catch (cause) {
      throw new Error(`Cannot unseal as the value was changed or moved: ${value.for}`, { cause });
    }
  }

  #key(id: string): Buffer {
    const key = this.#set.keys.get(id) ?? this.#current().keys.get(id);
    if (!key) throw new Error(`Cannot unseal as the key file does not have the key: ${id}`);
    return key;
  }

  /** The keys as the file has them, since another process may have added one; those that are known while it has none. */
  #current(): KeySet {
    try {
      const version = keyFileVersion(this.#path);
      if (version === this.#version) return this.#set;
      const set = readKeyFile(this.#path);
      if (set === undefined) throw new Error(`Key file is gone: ${this.#path}`);
      this.#set = set;
      this.#version = version;
      this.#fault = undefined;
    } catch (error) {
      const fault = String(error);
      if (fault !== this.#fault) this.#onFault(error);
      this.#fault = fault; // the version is not kept: a file that only changes its owner is read again
    }
    return this.#set;
  }
}

const tagBytes = 16;
const nonceBytes = 12;

function boundTo(tenant: string, place: string): Buffer {
  return Buffer.from(`${tenant}/${place}`);
}

/**
 * The nonce with which a key seals what an older one sealed. Each value has its own, as if it were random. Copies of one
 * share it, and these have one text and one place: what is sealed with it is always the same.
 */
function nonceAfter({ $sealed }: SealedValue, key: Buffer): Buffer {
  return createHmac('sha256', key).update(`reseal ${$sealed}`).digest().subarray(0, nonceBytes);
}

function newKeyId(): string {
  return randomBytes(4).toString('hex');
}

function partsOf(value: SealedValue): { keyId: string; nonce: Buffer; sealed: Buffer } {
  const [keyId, nonce, sealed, ...more] = value.$sealed.split('.');
  const parts = { keyId: keyId ?? '', nonce: decode(nonce), sealed: decode(sealed) };
  if (more.length > 0 || parts.nonce.length !== nonceBytes || parts.sealed.length < tagBytes)
    throw new Error(`Cannot unseal as the value is not whole: ${value.for}`);
  return parts;
}

function decode(text = ''): Buffer {
  return Buffer.from(text, 'base64url');
}

/** Bytes of the text that is sealed in a value, computed without opening it. */
export function plainBytes({ $sealed }: Pick<SealedValue, '$sealed'>): number {
  const characters = $sealed.length - $sealed.lastIndexOf('.') - 1;
  return Math.max(0, Math.floor((characters * 3) / 4) - tagBytes);
}

/** Whether a value of a record is a secret. */
export function isSealed(value: unknown): value is SealedValue {
  return (
    typeof value === 'object' &&
    value !== null &&
    '$sealed' in value &&
    typeof value.$sealed === 'string' &&
    'for' in value &&
    typeof value.for === 'string'
  );
}
