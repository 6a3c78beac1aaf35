import { createHash } from 'node:crypto';
import type { KeyObject } from 'node:crypto';
import { createReadStream, createWriteStream } from 'node:fs';
import { mkdir, mkdtemp, readdir, readFile, rename, rm, stat, writeFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { createGzip } from 'node:zlib';
import packageFile from '../../package.json' with { type: 'json' };
import {
  licencesFileName,
  openRelease,
  packedName,
  publicKeyOf,
  releaseFileName,
  signRelease,
} from '../../agent-protocol/release-manifest.ts';
import type { Platform, ReleaseManifest } from '../../agent-protocol/release-manifest.ts';
import { bundleAgent } from './bundle.ts';
import { makeExecutable } from './executable.ts';
import { licencesOf } from './licenses.ts';
import { nodeFor } from './node-binary.ts';

const root = new URL('../../', import.meta.url).pathname;
/** Packages of Node for other processors. */
const cache = join(root, '.cache/release');
/** The earliest version whose agents can be updated to this one without a version between them. */
const minVersion = '0.1.0';

/**
 * Builds the executables of the agent for these platforms into a folder, with the licences of what is in them and the
 * signed manifest `manifest.json`. A control plane may serve the folder meanwhile: the manifest is replaced last, and
 * files of earlier releases are removed after it. `packed`: with a gzip of each, which is a third of its size. `former`:
 * where the release before is, if it is in another folder. `replace`: one of the same version with other executables is replaced. @throws Error if one of them cannot be built, or if
 * there is such a release, which then stays
 */
export async function buildRelease(
  {
    out,
    key,
    platforms,
    packed,
    former = out,
    replace = false,
  }: {
    out: string;
    key: KeyObject;
    platforms: readonly Platform[];
    packed: boolean;
    former?: string;
    replace?: boolean;
  },
  signal: AbortSignal,
): Promise<ReleaseManifest> {
  const { version } = packageFile;
  await mkdir(out, { recursive: true });
  const before = (await releaseIn(out)) ?? (await releaseIn(former));
  const { code: module, sources } = await bundleAgent([publicKeyOf(key)]);
  const files: ReleaseManifest['files'] = [];
  for (const platform of platforms) {
    const name = releaseFileName(version, platform);
    // In the same file system, so that the executable can be moved to its place.
    const work = await mkdtemp(join(resolve(out), '.work-'));
    try {
      await makeExecutable(
        { node: await nodeFor(platform, { work, cache }, signal), module, work, to: join(work, name) },
        signal,
      );
      const file = { platform, name, ...(await measure(join(work, name), signal)) };
      const former = before?.files.find((it) => it.name === name);
      if (!replace && former !== undefined && former.sha256 !== file.sha256) throw otherBuild(version);
      files.push(file);
      if (packed) await pack(join(work, name), join(out, packedName(name)), signal);
      await rename(join(work, name), join(out, name));
    } finally {
      await rm(work, { recursive: true, force: true });
    }
  }
  const name = licencesFileName(version);
  await writeFile(join(out, name), await licencesOf(root, sources));
  const licences = { name, ...(await measure(join(out, name), signal)) };
  const manifest: ReleaseManifest = { product: 'setpoint-agent', version, min_version: minVersion, files, licences };
  const path = join(out, 'manifest.json');
  await writeFile(`${path}.new`, `${JSON.stringify(signRelease(manifest, key), null, 2)}\n`);
  await rename(`${path}.new`, path);
  await removeOthers(out, manifest, packed);
  return manifest;
}

/** The release that a folder has; `undefined`: none that can be read. */
async function releaseIn(folder: string): Promise<ReleaseManifest | undefined> {
  try {
    return openRelease(JSON.parse(await readFile(join(folder, 'manifest.json'), 'utf8')), 'any');
  } catch {
    return undefined;
  }
}

function otherBuild(version: string): Error {
  return new Error(
    `There is another build of the version ${version}, and agents that run it would never be updated to this one. Check out the tag of a later release; or replace it with --replace, and update the agent of each server by the script on its machine`,
  );
}

async function measure(path: string, signal: AbortSignal): Promise<{ size: number; sha256: string }> {
  const hash = createHash('sha256');
  for await (const chunk of createReadStream(path, { highWaterMark: 1 << 20, signal })) hash.update(chunk);
  return { size: (await stat(path)).size, sha256: hash.digest('hex') };
}

async function pack(from: string, to: string, signal: AbortSignal): Promise<void> {
  await pipeline(createReadStream(from, { highWaterMark: 1 << 20 }), createGzip(), createWriteStream(to), { signal });
}

async function removeOthers(out: string, { files, licences }: ReleaseManifest, packed: boolean): Promise<void> {
  const kept = new Set(files.flatMap(({ name }) => (packed ? [name, packedName(name)] : [name])));
  if (licences !== undefined) kept.add(licences.name);
  const names = await readdir(out);
  const others = names.filter((name) => name.startsWith('setpoint-agent-') && !kept.has(name));
  for (const name of others) await rm(join(out, name));
}
