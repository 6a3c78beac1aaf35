import { createHash } from 'node:crypto';
import { said } from './said.ts';

/** The key by which a machine proves that it is the same one. */
export interface HostKey {
  /** `ssh-ed25519`, `ecdsa-sha2-nistp256` and the like. */
  type: string;
  /** `SHA256:` and the digest in base64 without padding, as `ssh-keygen -l` prints it. */
  fingerprint: string;
}

/** The key that a machine must show; `type` if it is known. */
export type PinnedKey = Pick<HostKey, 'fingerprint'> & { readonly type?: string | undefined };

/** @param blob public key in the form of RFC 4253, section 6.6 */
export function hostKeyOf(blob: Buffer): HostKey {
  const length = blob.length >= 4 ? blob.readUInt32BE(0) : 0;
  const type = said(blob.toString('latin1', 4, 4 + Math.min(length, 64)), 64);
  const digest = createHash('sha256').update(blob).digest('base64').replace(/=+$/, '');
  return { type, fingerprint: `SHA256:${digest}` };
}

const offered = [
  'ssh-ed25519',
  'ecdsa-sha2-nistp256',
  'ecdsa-sha2-nistp384',
  'ecdsa-sha2-nistp521',
  'rsa-sha2-512',
  'rsa-sha2-256',
] as const;
export type HostKeyAlgorithm = (typeof offered)[number];

/**
 * The algorithms to offer, those of the known key first: a machine with several keys then shows the one that is known,
 * as with OpenSSH. RSA with SHA-1 is never offered.
 */
export function algorithmsFor(known: PinnedKey | undefined): HostKeyAlgorithm[] {
  const isOfKnown = (it: HostKeyAlgorithm): boolean =>
    known !== undefined && (it === known.type || (known.type === 'ssh-rsa' && it.startsWith('rsa-')));
  return [...offered].sort((a, b) => Number(isOfKnown(b)) - Number(isOfKnown(a)));
}
