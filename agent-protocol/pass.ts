import { createPublicKey, verify } from 'node:crypto';

/** Header of the connection request that holds the pass, see {@link makePass}. */
export const passHeader = 'x-setpoint-pass';

/** Largest allowed difference between the clocks of agent and control plane, in milliseconds. */
const freshMs = 5 * 60_000;
const form = /^([0-9a-f-]{36})\.(\d{1,15})\.([A-Za-z0-9_-]{86})$/;

/** What an agent sends with its connection request: its server and the time, signed by its key. */
export interface Pass {
  server: string;
  /** Milliseconds since 1970 by the agent's clock. */
  at: number;
  signature: string;
}

/**
 * Makes a pass for one connection that begins now. A pass grants no access: with it the control plane keeps a place for
 * this agent when strangers take all other places.
 */
export function makePass(server: string, now: Date, sign: (bytes: Uint8Array) => string): string {
  const at = now.getTime();
  return `${server}.${at}.${sign(bytesOf({ server, at }))}`;
}

/** Returns `undefined` if the text does not have the form of a pass. Does not check the signature. */
export function parsePass(text: string): Pass | undefined {
  const [, server, at, signature] = form.exec(text) ?? [];
  if (server === undefined || at === undefined || signature === undefined) return undefined;
  return { server, at: Number(at), signature };
}

/** True if the holder of the key (Ed25519, raw, base64url) made the pass within the last 5 minutes. Never throws. */
export function isGoodPass(pass: Pass, publicKey: string, now: Date): boolean {
  if (Math.abs(now.getTime() - pass.at) > freshMs) return false;
  try {
    const key = createPublicKey({ key: { kty: 'OKP', crv: 'Ed25519', x: publicKey }, format: 'jwk' });
    return verify(null, bytesOf(pass), key, Buffer.from(pass.signature, 'base64url'));
  } catch {
    return false; // a malformed key or signature proves nothing
  }
}

/** The signed bytes. Their prefix is used by no other signature of the product. */
function bytesOf({ server, at }: Omit<Pass, 'signature'>): Uint8Array {
  return Buffer.from(`setpoint-pass.v1\0${server}\0${at}`);
}
