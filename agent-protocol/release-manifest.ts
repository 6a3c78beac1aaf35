import { createPublicKey, sign, verify } from 'node:crypto';
import type { KeyObject } from 'node:crypto';
import { z } from 'zod';

/** What Node calls the machines that a release has an executable for: `process.platform`, a dash, `process.arch`. */
export const platforms = ['linux-x64', 'linux-arm64'] as const;
export type Platform = (typeof platforms)[number];

/** The version of a release. */
export const ReleaseVersion = z.string().regex(/^\d{1,5}\.\d{1,5}\.\d{1,5}$/, 'Must be a version such as 1.2.3');

const FileFields = {
  name: z.string(),
  size: z.int().min(1).max(1_000_000_000),
  /** Hex. */
  sha256: z.string().regex(/^[0-9a-f]{64}$/),
};

/** One executable of a release. A later release may have platforms that this one does not know. */
const ReleaseFile = z.object({
  platform: z.string().regex(/^linux-[a-z0-9]{1,16}$/),
  ...FileFields,
});

/** The executables of one release of the agent, one for each platform. */
export const ReleaseManifest = z
  .object({
    product: z.literal('setpoint-agent'),
    version: ReleaseVersion,
    /** The earliest version that can be updated to this one without a version between them. */
    min_version: ReleaseVersion,
    files: z.array(ReleaseFile).min(1).max(16),
    /** The licences of what the executables consist of, as text. A release before it had none. */
    licences: z.object(FileFields).optional(),
  })
  .refine(({ version, files }) => files.every((it) => it.name === releaseFileName(version, it.platform)), {
    message: 'The name of a file must be made of the version and its platform',
  })
  .refine(({ version, licences }) => licences === undefined || licences.name === licencesFileName(version), {
    message: 'The name of the licences must be made of the version',
  });
export type ReleaseManifest = z.infer<typeof ReleaseManifest>;

/**
 * A manifest as it is stored and sent. The signature is over the very text that is parsed afterwards: no two programs
 * can read different things from it.
 */
const SignedRelease = z.object({
  manifest: z.string().max(64 * 1024),
  /** Ed25519, raw, base64url. */
  key: z.string().regex(/^[\w-]{43}$/),
  /** Ed25519, base64url. */
  signature: z.string().regex(/^[\w-]{86}$/),
});
export type SignedRelease = z.infer<typeof SignedRelease>;

/** Whether a version comes after another one; false if one of them is not the version of a release. */
export function isLater(version: string, than: string): boolean {
  if (![version, than].every((text) => ReleaseVersion.safeParse(text).success)) return false;
  const comparable = (text: string): string => text.replaceAll(/\d+/g, (part) => part.padStart(5, '0'));
  return comparable(version) > comparable(than);
}

/** Name of an executable in a release and below `/agent/`. */
export function releaseFileName(version: string, platform: string): string {
  return `setpoint-agent-${version}-${platform}`;
}

/** Name of the licences in a release and below `/agent/`. */
export function licencesFileName(version: string): string {
  return `setpoint-agent-${version}-LICENSES`;
}

/** Name of the same file as gzip, which lies beside it, if at all. */
export function packedName(name: string): string {
  return `${name}.gz`;
}

export function signRelease(manifest: ReleaseManifest, privateKey: KeyObject): SignedRelease {
  const text = JSON.stringify(ReleaseManifest.parse(manifest));
  return {
    manifest: text,
    key: publicKeyOf(privateKey),
    signature: sign(null, bytesOf(text), privateKey).toString('base64url'),
  };
}

/** The public half of a key that signs releases, raw, base64url. */
export function publicKeyOf(privateKey: KeyObject): string {
  return createPublicKey(privateKey).export({ format: 'jwk' }).x ?? '';
}

/** The public key that a signed manifest names, raw, base64url; `undefined`: it is no signed manifest. */
export function signerOf(signed: unknown): string | undefined {
  return SignedRelease.safeParse(signed).data?.key;
}

/**
 * Reads a signed manifest. `trusted`: the public keys that may sign it, or `any` where only damage is to be found: then
 * it must be signed by the key that it names. @throws Error that says what is wrong
 */
export function openRelease(signed: unknown, trusted: readonly string[] | 'any'): ReleaseManifest {
  const parsed = SignedRelease.safeParse(signed);
  if (!parsed.success) throw new Error('It is not a signed manifest', { cause: parsed.error });
  const { manifest, key, signature } = parsed.data;
  if (trusted !== 'any' && !trusted.includes(key)) throw new Error(`It is signed by an unknown key: ${key}`);
  if (!isSigned(manifest, key, signature)) throw new Error('Its signature is wrong');
  const content = ReleaseManifest.safeParse(JSON.parse(manifest));
  if (!content.success)
    throw new Error('Its signature is right, but this release cannot read it', { cause: content.error });
  return content.data;
}

function isSigned(text: string, key: string, signature: string): boolean {
  try {
    const known = createPublicKey({ key: { kty: 'OKP', crv: 'Ed25519', x: key }, format: 'jwk' });
    return verify(null, bytesOf(text), known, Buffer.from(signature, 'base64url'));
  } catch {
    return false; // a malformed key signs nothing
  }
}

/** The signed bytes. Their prefix is used by no other signature of the product. */
function bytesOf(text: string): Uint8Array {
  return Buffer.from(`setpoint-release.v1\0${text}`);
}
