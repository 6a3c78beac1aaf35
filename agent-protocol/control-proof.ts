import { createHash, createPublicKey, sign, verify } from 'node:crypto';
import type { KeyObject } from 'node:crypto';
import type { Hello, Welcome } from './messages.ts';
import type { z } from 'zod';

type Asked = z.infer<typeof Hello>['control'];
type Proof = NonNullable<z.infer<typeof Welcome>['proof']>;

/** The context that a proof is valid for: one session of one agent, and the nonce that the agent sent. */
export interface Occasion {
  server: string;
  nonce: string;
  session: string;
}

/** The agent's judgement of the control plane that welcomes it. */
export type Verdict =
  /** It proved that it has the key that the agent knows, or the agent knew none. `keyHash`: hash of the next key. */
  | { kind: 'proven'; keyHash: string }
  /** It sent no proof, and the agent knows no key yet: a control plane of an earlier release. */
  | { kind: 'unproven' }
  /** It is not the control plane that the agent knows. */
  | { kind: 'impostor'; why: string };

const hashBytes = 16;

/** The hash by which an agent knows its control plane's key (Ed25519, raw, base64url): half a SHA-256, base64url. */
export function hashControlKey(publicKey: string): string {
  const digest = createHash('sha256').update(`setpoint control key\0${publicKey}`).digest();
  return digest.subarray(0, hashBytes).toString('base64url');
}

/** Makes the proof of a control plane. `newest`: the public key that it will sign with from now on. */
export function proveControl(key: { public: string; private: KeyObject }, newest: string, occasion: Occasion): Proof {
  const signature = sign(null, bytesOf(occasion, newest), key.private).toString('base64url');
  return { key: key.public, newest, signature };
}

/** Judges the proof in a welcome by the request in the agent's hello. Never throws. */
export function judgeControl(asked: NonNullable<Asked>, proof: Proof | undefined, occasion: Occasion): Verdict {
  if (proof === undefined)
    return asked.key_hash === undefined
      ? { kind: 'unproven' }
      : { kind: 'impostor', why: 'The control plane did not prove its identity' };
  if (asked.key_hash !== undefined && hashControlKey(proof.key) !== asked.key_hash)
    return { kind: 'impostor', why: 'The control plane has another key than the one that this agent knows' };
  if (!isSigned(proof, occasion)) return { kind: 'impostor', why: 'The proof of the control plane is wrong' };
  return { kind: 'proven', keyHash: hashControlKey(proof.newest) };
}

function isSigned({ key, newest, signature }: Proof, occasion: Occasion): boolean {
  try {
    const known = createPublicKey({ key: { kty: 'OKP', crv: 'Ed25519', x: key }, format: 'jwk' });
    return verify(null, bytesOf(occasion, newest), known, Buffer.from(signature, 'base64url'));
  } catch {
    return false; // a malformed key or signature proves nothing
  }
}

/** The signed bytes. Their prefix is used by no other signature of the product. */
function bytesOf({ server, nonce, session }: Occasion, newest: string): Uint8Array {
  return Buffer.from(['setpoint-control.v1', server, nonce, session, newest].join('\0'));
}
