import { createHash } from 'node:crypto';
import { hashControlKey } from './control-proof.ts';

/** Form of a join token: `sj_<server id without dashes>_<32 bytes as 43 base64url characters>`. */
const form = /^sj_([0-9a-f]{8})([0-9a-f]{4})([0-9a-f]{4})([0-9a-f]{4})([0-9a-f]{12})_([A-Za-z0-9_-]{43})$/;

const secretBytes = 16;
const alphabet = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_';

/**
 * Makes the token that lets one agent join as that server, once. Its first 16 bytes are `random`, which must come from
 * a cryptographic source. The other 16 are the hash of `controlKey` (Ed25519, raw, base64url), by which the control
 * plane proves itself to the agent.
 *
 * Earlier releases made tokens of 32 secret bytes, and their agents read this one as such. 43 characters have two bits
 * more than 32 bytes, which decoders ignore: the lowest of them marks a token that has the hash.
 * @throws RangeError if the server id is not a UUID or `random` does not have 16 bytes
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
 * Returns the server that the token is for and, unless an earlier release made the token, the hash of the control
 * plane's key; `undefined` if the text is not a join token.
 */
export function parseJoinToken(token: string): { serverId: string; controlKeyHash?: string } | undefined {
  const parts = form.exec(token)?.slice(1);
  const text = parts?.pop();
  if (parts === undefined || text === undefined) return undefined;
  const serverId = parts.join('-');
  if (alphabet.indexOf(text.slice(-1)) % 2 === 0) return { serverId };
  return { serverId, controlKeyHash: Buffer.from(text, 'base64url').subarray(secretBytes).toString('base64url') };
}

/** The hash (SHA-256, hex) that the control plane keeps of a token. */
export function hashJoinToken(token: string): string {
  return createHash('sha256').update(token).digest('hex');
}

function marked(character: string): string {
  return alphabet.charAt(alphabet.indexOf(character) + 1);
}
