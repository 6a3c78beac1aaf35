import { createPrivateKey, generateKeyPairSync } from 'node:crypto';
import type { KeyObject } from 'node:crypto';
import { mkdir, readFile, stat, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { publicKeyOf, signerOf } from '../../agent-protocol/release-manifest.ts';
import { credentialsPath } from '../credentials.ts';

/** Where the key of releases is kept unless another place is named: beside the logins of this user. */
export function releaseKeyPath(): string {
  return join(dirname(credentialsPath()), 'release-key.pem');
}

/**
 * Reads the key that signs releases (Ed25519, PKCS #8, PEM), or makes one that only its owner can read. `signer`: the
 * public key (raw, base64url) that signed the release before; another one is neither made nor taken. @throws Error if
 * others can read the file, if it is no such key, or if it is not that of `signer`
 */
export async function releaseKey(path: string, signer?: string): Promise<{ key: KeyObject; isNew: boolean }> {
  const text = await readFile(path, 'utf8').catch((error: unknown) => {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return undefined;
    throw error;
  });
  if (text === undefined) {
    if (signer !== undefined) throw otherSigner(`There is no key that signs releases at ${path}`);
    const { privateKey: key } = generateKeyPairSync('ed25519');
    await mkdir(dirname(path), { recursive: true, mode: 0o700 });
    await writeFile(path, key.export({ type: 'pkcs8', format: 'pem' }), { flag: 'wx', mode: 0o600 });
    return { key, isNew: true };
  }
  if (((await stat(path)).mode & 0o077) !== 0)
    throw new Error(
      `Other users can read the key that signs releases: chmod 600 ${path}, and make another if they did`,
    );
  const key = createPrivateKey(text);
  if (key.asymmetricKeyType !== 'ed25519')
    throw new Error(
      `The key that signs releases must be an Ed25519 key: ${path} is ${key.asymmetricKeyType ?? 'none'}`,
    );
  if (signer !== undefined && publicKeyOf(key) !== signer)
    throw otherSigner(`The key that signs releases is another one than before: ${path}`);
  return { key, isNew: false };
}

/** The public key that signed the release in a folder; `undefined`: there is none that can be read. */
export async function signerIn(folder: string): Promise<string | undefined> {
  try {
    return signerOf(JSON.parse(await readFile(join(folder, 'manifest.json'), 'utf8')));
  } catch {
    return undefined;
  }
}

function otherSigner(what: string): Error {
  return new Error(
    `${what}. Agents take updates by the key alone that signed the release before: put a copy of it there. If it is lost, --new-key signs with another, and the agent of each server is then updated by the script on its machine`,
  );
}
