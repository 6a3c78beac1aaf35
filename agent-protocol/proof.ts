import { createPublicKey, verify } from 'node:crypto';
import { subprotocol } from './messages.ts';

/** The bytes that an agent signs to prove that it holds its key. */
export function proofBytes(serverId: string, nonce: string): Uint8Array {
  return Buffer.from(`${subprotocol}\0${serverId}\0${nonce}`);
}

/** True if `signature` (base64url) over the challenge was made by the key (Ed25519, raw, base64url). Never throws. */
export function isProof(publicKey: string, serverId: string, nonce: string, signature: string): boolean {
  try {
    const key = createPublicKey({ key: { kty: 'OKP', crv: 'Ed25519', x: publicKey }, format: 'jwk' });
    return verify(null, proofBytes(serverId, nonce), key, Buffer.from(signature, 'base64url'));
  } catch {
    return false; // a malformed key or signature proves nothing
  }
}
