import type { SealedValue } from './kinds/define.ts';

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

/** Decrypts fields. Given to the environment endpoint and the gateway's projection only. */
export interface Unsealer {
  /** @throws Error if the key is unknown or the value does not belong there; never answers with an empty value. */
  unseal(value: SealedValue, place: SealPlace): string;
}
