import { createHash, generateKeyPairSync } from 'node:crypto';
import type { KeyObject } from 'node:crypto';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { licencesFileName, publicKeyOf, releaseFileName, signRelease } from '../../agent-protocol/release-manifest.ts';
import type { ReleaseManifest } from '../../agent-protocol/release-manifest.ts';

const { privateKey } = generateKeyPairSync('ed25519');
export const licencesText = 'Licences of a small agent\n';

/** The key that signs small releases unless another one is named. */
export const smallReleaseKey = publicKeyOf(privateKey);

/** A release whose executables are texts, in a folder of its own. */
export interface SmallRelease extends AsyncDisposable {
  readonly folder: string;
  manifest: ReleaseManifest;
  /** Replaces it by another version with that content for each platform. */
  publish(version: string, contents: Readonly<Record<string, string>>, changes?: ManifestChanges): Promise<void>;
}

type ManifestChanges = Partial<Pick<ReleaseManifest, 'min_version' | 'files'>>;

/** `key`: what signs it. */
export async function smallRelease(
  version: string,
  contents: Readonly<Record<string, string>>,
  key: KeyObject = privateKey,
): Promise<SmallRelease> {
  const folder = await mkdtemp(join(tmpdir(), 'setpoint-small-release-'));
  const publish = async (
    next: string,
    texts: Readonly<Record<string, string>>,
    changes: ManifestChanges = {},
  ): Promise<ReleaseManifest> => {
    const measure = (text: string) => ({
      size: Buffer.byteLength(text),
      sha256: createHash('sha256').update(text).digest('hex'),
    });
    const files = Object.entries(texts).map(([platform, text]) => ({
      platform,
      name: releaseFileName(next, platform),
      ...measure(text),
    }));
    const licences = { name: licencesFileName(next), ...measure(licencesText) };
    await writeFile(join(folder, licences.name), licencesText);
    for (const { name, platform } of files) await writeFile(join(folder, name), texts[platform] ?? '');
    const manifest: ReleaseManifest = {
      product: 'setpoint-agent',
      version: next,
      min_version: '0.1.0',
      files,
      licences,
      ...changes,
    };
    await writeFile(join(folder, 'manifest.json'), JSON.stringify(signRelease(manifest, key)));
    return manifest;
  };
  const release: SmallRelease = {
    folder,
    manifest: await publish(version, contents),
    publish: async (next, texts, changes) => {
      release.manifest = await publish(next, texts, changes);
    },
    [Symbol.asyncDispose]: () => rm(folder, { recursive: true, force: true }),
  };
  return release;
}
