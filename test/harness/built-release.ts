import { createHash } from 'node:crypto';
import { mkdir, mkdtemp, readdir, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import packageFile from '../../package.json' with { type: 'json' };
import {
  openRelease,
  platforms,
  publicKeyOf,
  releaseFileName,
  signRelease,
} from '../../agent-protocol/release-manifest.ts';
import type { Platform, ReleaseManifest } from '../../agent-protocol/release-manifest.ts';
import { buildRelease } from '../../cli/release/build-release.ts';
import { bundleAgent } from '../../cli/release/bundle.ts';
import { makeExecutable } from '../../cli/release/executable.ts';
import { nodeFor } from '../../cli/release/node-binary.ts';
import { releaseKey } from '../../cli/release/release-key.ts';

const root = new URL('../../', import.meta.url).pathname;
const cache = join(root, '.cache/test-release');
/** Changes of these change what a release is made of, as the module of the agent does. */
const makers = [
  'package-lock.json',
  'cli/release/executable.ts',
  'cli/release/licenses.ts',
  'cli/release/build-release.ts',
];
const deadlineMs = 120_000;

export interface BuiltRelease {
  folder: string;
  manifest: ReleaseManifest;
  /** Path of the executable. */
  executable: string;
}

/** The name of this machine in a release. */
export const ownPlatform: Platform = ownOf(`${process.platform}-${process.arch}`);

function ownOf(name: string): Platform {
  const found = platforms.find((it) => it === name);
  if (found === undefined) throw new Error(`There is no release of the agent for this machine: ${name}`);
  return found;
}

/** The key that signs the releases of tests. */
export async function testReleaseKey(): ReturnType<typeof releaseKey> {
  await mkdir(cache, { recursive: true });
  return releaseKey(join(cache, 'key.pem'));
}

/**
 * The release of this checkout for one platform, by default that of this machine. It is built where its sources have
 * changed since the last time: that takes seconds, and 150 MB.
 */
export async function builtRelease(platform = ownPlatform): Promise<BuiltRelease> {
  const { key } = await testReleaseKey();
  const what = platform === ownPlatform ? 'present' : platform;
  return made(what, (await bundleAgent([publicKeyOf(key)])).code, async (out, signal) => {
    await buildRelease({ out, key, platforms: [platform], packed: false }, signal);
  });
}

/** The same with another version. */
export async function laterRelease(version: string): Promise<BuiltRelease> {
  const { key } = await testReleaseKey();
  const { code } = await bundleAgent([publicKeyOf(key)]);
  const parts = code.split(`"${packageFile.version}"`);
  if (parts.length !== 2) throw new Error(`The bundle of the agent has its version in ${parts.length - 1} places`);
  const module = parts.join(`"${version}"`);
  return made('later', module, async (out, signal) => {
    const name = releaseFileName(version, ownPlatform);
    const work = join(out, 'work');
    await mkdir(work);
    const node = await nodeFor(ownPlatform, { work, cache }, signal);
    await makeExecutable({ node, module, work, to: join(out, name) }, signal);
    await rm(work, { recursive: true });
    const content = await readFile(join(out, name));
    const sha256 = createHash('sha256').update(content).digest('hex');
    const manifest = signRelease(
      {
        product: 'setpoint-agent',
        version,
        min_version: packageFile.version,
        files: [{ platform: ownPlatform, name, size: content.length, sha256 }],
      },
      key,
    );
    await writeFile(join(out, 'manifest.json'), JSON.stringify(manifest));
  });
}

/** A release that is made into a folder unless its module is the one of the last time. */
async function made(
  what: string,
  module: string,
  make: (out: string, signal: AbortSignal) => Promise<void>,
): Promise<BuiltRelease> {
  const place = join(cache, what);
  await mkdir(place, { recursive: true });
  const hash = createHash('sha256').update(module);
  for (const name of makers) hash.update(await readFile(join(root, name)));
  const folder = join(place, hash.digest('hex').slice(0, 16));
  const known = await read(folder);
  if (known !== undefined) return known;
  const building = await mkdtemp(join(place, '.building-'));
  try {
    await make(building, AbortSignal.timeout(deadlineMs));
    await rename(building, folder).catch((error: unknown) => {
      // another test has built it meanwhile
      if (!(error instanceof Error && 'code' in error && error.code === 'ENOTEMPTY')) throw error;
    });
  } finally {
    await rm(building, { recursive: true, force: true });
  }
  for (const name of await readdir(place))
    if (/^[0-9a-f]{16}$/.test(name) && join(place, name) !== folder) await rm(join(place, name), { recursive: true });
  const built = await read(folder);
  if (built === undefined) throw new Error(`The release is not in ${folder} after its build`);
  return built;
}

async function read(folder: string): Promise<BuiltRelease | undefined> {
  const text = await readFile(join(folder, 'manifest.json'), 'utf8').catch(() => undefined);
  if (text === undefined) return undefined;
  const manifest = openRelease(JSON.parse(text), 'any');
  return { folder, manifest, executable: join(folder, manifest.files[0]!.name) };
}
