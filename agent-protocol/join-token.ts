import { createHash } from 'node:crypto';

/** Form of a join token: `sj_<server id without dashes>_<43 base64url characters>`. */
const form = /^sj_([0-9a-f]{8})([0-9a-f]{4})([0-9a-f]{4})([0-9a-f]{4})([0-9a-f]{12})_[A-Za-z0-9_-]{43}$/;

/** Makes the token that lets one agent join as that server, once. `random`: 32 bytes of a cryptographic source. */
export function makeJoinToken(serverId: string, random: Uint8Array): string {
  const token = `sj_${serverId.replaceAll('-', '')}_${Buffer.from(random).toString('base64url')}`;
  if (parseJoinToken(token) === undefined)
    throw new RangeError(`A join token needs a server id and 32 random bytes: got ${serverId}, ${random.length} bytes`);
  return token;
}

/** The server that the token is for; `undefined` if it is no join token. */
export function parseJoinToken(token: string): { serverId: string } | undefined {
  const match = form.exec(token);
  return match === null ? undefined : { serverId: match.slice(1).join('-') };
}

/** What the control plane keeps of a token: SHA-256, hex. */
export function hashJoinToken(token: string): string {
  return createHash('sha256').update(token).digest('hex');
}
