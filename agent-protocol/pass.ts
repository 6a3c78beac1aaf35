import { createPublicKey, verify } from 'node:crypto';

/** Header of the request for the connection that holds a {@link makePass}. */
export const passHeader = 'x-setpoint-pass';

/** Clocks may differ by so much, in milliseconds. */
const freshMs = 5 * 60_000;
const form = /^([0-9a-f-]{36})\.(\d{1,15})\.([A-Za-z0-9_-]{86})$/;

/** What an agent says of itself before its connection is taken: its server and the time, signed by its key. */
export interface Pass {
  server: string;
  /** Milliseconds since 1970 by the agent's clock. */
  at: number;
  signature: string;
}

/**
 * A pass for one connection that begins now. It opens nothing: it only has the control plane keep a place for this
 * agent where strangers take all others.
 */
export function makePass(server: string, now: Date, sign: (bytes: Uint8Array) => string): string {
  const at = now.getTime();
  return `${server}.${at}.${sign(bytesOf({ server, at }))}`;
}

/** `undefined` for what is no pass. Whether it is good is another question. */
export function parsePass(text: string): Pass | undefined {
  const [, server, at, signature] = form.exec(text) ?? [];
  if (server === undefined || at === undefined || signature === undefined) return undefined;
  return { server, at: Number(at), signature };
}

/** Whether the pass was made of late by the holder of the key (Ed25519, raw, base64url). Never throws. */
export function isGoodPass(pass: Pass, publicKey: string, now: Date): boolean {
  if (Math.abs(now.getTime() - pass.at) > freshMs) return false;
  try {
    const key = createPublicKey({ key: { kty: 'OKP', crv: 'Ed25519', x: publicKey }, format: 'jwk' });
    return verify(null, bytesOf(pass), key, Buffer.from(pass.signature, 'base64url'));
  } catch {
    return false; // a key or a signature that is none proves nothing
  }
}

/** No other signature of the product is over bytes that begin so. */
function bytesOf({ server, at }: Omit<Pass, 'signature'>): Uint8Array {
  return Buffer.from(`setpoint-pass.v1\0${server}\0${at}`);
}
