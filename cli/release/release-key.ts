import { createPrivateKey, generateKeyPairSync } from 'node:crypto';
import type { KeyObject } from 'node:crypto';
import { mkdir, readFile, stat, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { credentialsPath } from '../credentials.ts';

/** Where the key of releases is kept unless another place is named: beside the logins of this user. */
export function releaseKeyPath(): string {
  return join(dirname(credentialsPath()), 'release-key.pem');
}

/**
 * Reads the key that signs releases (Ed25519, PKCS #8, PEM), or makes one that only its owner can read. @throws Error
 * if others can read the file, or if it is no such key
 */
export async function releaseKey(path: string): Promise<{ key: KeyObject; isNew: boolean }> {
  const text = await readFile(path, 'utf8').catch((error: unknown) => {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return undefined;
    throw error;
  });
  if (text === undefined) {
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
  return { key, isNew: false };
}
