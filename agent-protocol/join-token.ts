import { createHash } from 'node:crypto';
import { hashControlKey } from './control-proof.ts';

/** Form of a join token: `sj_<server id without dashes>_<43 base64url characters, which are 32 bytes>`. */
const form = /^sj_([0-9a-f]{8})([0-9a-f]{4})([0-9a-f]{4})([0-9a-f]{4})([0-9a-f]{12})_([A-Za-z0-9_-]{43})$/;

const secretBytes = 16;
const alphabet = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_';

/**
 * Makes the token that lets one agent join as that server, once. Its first 16 bytes are secret, the others say by which
 * key (Ed25519, raw, base64url) the control plane proves itself to the agent. `random`: 16 bytes of a cryptographic
 * source.
 *
 * An agent of an earlier release takes it like one of 32 secret bytes: what says that it is not is the lowest of the two
 * bits that 43 characters have beyond 32 bytes, which decoders leave out.
 */
export function makeJoinToken(serverId: string, random: Uint8Array, controlKey: string): string {
  const bytes = Buffer.concat([random, Buffer.from(hashControlKey(controlKey), 'base64url')]);
  const text = bytes.toString('base64url');
  const token = `sj_${serverId.replaceAll('-', '')}_${text.slice(0, -1)}${marked(text.slice(-1))}`;
  if (random.length !== secretBytes || parseJoinToken(token) === undefined)
    throw new RangeError(`A join token needs a server id and 16 random bytes: got ${serverId}, ${random.length} bytes`);
  return token;
}

/**
 * The server that the token is for, and the hash of the control plane's key unless an earlier release made it;
 * `undefined` if it is no join token.
 */
export function parseJoinToken(token: string): { serverId: string; controlKeyHash?: string } | undefined {
  const parts = form.exec(token)?.slice(1);
  const text = parts?.pop();
  if (parts === undefined || text === undefined) return undefined;
  const serverId = parts.join('-');
  if (alphabet.indexOf(text.slice(-1)) % 2 === 0) return { serverId };
  return { serverId, controlKeyHash: Buffer.from(text, 'base64url').subarray(secretBytes).toString('base64url') };
}

/** What the control plane keeps of a token: SHA-256, hex. */
export function hashJoinToken(token: string): string {
  return createHash('sha256').update(token).digest('hex');
}

function marked(character: string): string {
  return alphabet.charAt(alphabet.indexOf(character) + 1);
}
