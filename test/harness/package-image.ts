import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { mkdir, mkdtemp, rename, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { docker } from './engine.ts';
import { machineLock } from './machine-lock.ts';
import { installNpm, mirror, unpackNpm } from './package-sources.ts';

const execute = promisify(execFile);
const makeMs = 10 * 60_000;
const limits = { timeout: makeMs, maxBuffer: 16 * 1024 * 1024 };
/** Other processes may make several images before the lock is free. */
const lockMs = 4 * makeMs;

/** The same for every suite. Pages that only people read are left out, as in the slim images of Debian. */
const baseOptions = [
  '--variant=apt',
  '--include=ca-certificates,netbase,passwd,procps,tzdata,zstd',
  '--dpkgopt=force-unsafe-io',
  ...['man', 'locale', 'doc', 'info'].map((it) => `--dpkgopt=path-exclude=/usr/share/${it}/*`),
  // The clock may be past the end of what the mirror has of sid.
  '--aptopt=Acquire::Check-Valid-Until "false"',
  '--aptopt=Acquire::Languages "none"',
  '--aptopt=APT::Install-Recommends "false"',
];

const baseChanges = ['ENV PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin', 'CMD ["bash"]'];

/** An image that is made of a suite of Debian. */
export interface PackageImage {
  suite: 'bookworm' | 'trixie' | 'sid';
  /** Lines of the Dockerfile before the packages are installed: what their installation finds. */
  before?: readonly string[];
  /** Installed with what they depend on, without what they recommend. */
  packages?: readonly string[];
  /** Lines of the Dockerfile after that. */
  lines?: readonly string[];
  /** Path in the build context → content. What begins with `#!` is executable. */
  files?: Readonly<Record<string, string | Buffer>>;
  /** Folder in the build context → package of npm that is unpacked there, with its version. */
  npm?: Readonly<Record<string, string>>;
  /** Folder in the build context → packages of npm that are installed there with what they need, with their versions. */
  modules?: Readonly<Record<string, readonly string[]>>;
}

/**
 * Makes the image unless the engine has one of the same recipe. Answers with its reference, `setpoint-test/NAME:HASH`.
 * It stays in the engine for later runs. Needs root, `mmdebstrap`, and the mirror of Debian that apt is set to.
 */
export async function ensurePackageImage(name: string, image: PackageImage): Promise<string> {
  const reference = `setpoint-test/${name}:${hashOf(image)}`;
  if (await exists(reference)) return reference;
  const base = await ensureBase(image.suite);
  await makeOnce(reference, async (folder) => {
    const context = join(folder, 'context');
    await mkdir(context);
    for (const [path, specifier] of Object.entries(image.npm ?? {})) {
      await unpackNpm(specifier, join(folder, path));
      await rename(join(folder, path, 'package'), join(context, path));
    }
    for (const [path, specifiers] of Object.entries(image.modules ?? {}))
      await installNpm(specifiers, join(context, path));
    const files = { ...image.files, Dockerfile: dockerfile(base, image) };
    for (const [path, content] of Object.entries(files)) {
      await mkdir(dirname(join(context, path)), { recursive: true });
      await writeFile(join(context, path), content, { mode: isScript(content) ? 0o755 : 0o644 });
    }
    await execute('docker', ['build', '--quiet', '--force-rm', '--tag', reference, context], limits);
  });
  return reference;
}

async function ensureBase(suite: PackageImage['suite']): Promise<string> {
  const reference = `setpoint-test/debian-${suite}:${hash([baseOptions, baseChanges])}`;
  if (await exists(reference)) return reference;
  await makeOnce(reference, async (folder) => {
    const archive = join(folder, 'tree.tar');
    await execute('mmdebstrap', ['--quiet', ...baseOptions, suite, archive, ...(await mirror())], limits);
    await docker('import', ...baseChanges.flatMap((it) => ['--change', it]), archive, reference);
  });
  return reference;
}

function dockerfile(base: string, { before = [], packages = [], lines = [] }: PackageImage): string {
  const install = `apt-get update -q && DEBIAN_FRONTEND=noninteractive apt-get install -y -q ${packages.join(' ')}`;
  return [
    `FROM ${base}`,
    ...before,
    ...(packages.length > 0 ? [`RUN ${install} && apt-get clean && rm -rf /var/lib/apt/lists/*`] : []),
    ...lines,
    '',
  ].join('\n');
}

/** Lets one process of this machine make it, in a folder for the occasion, and the others wait for it. */
async function makeOnce(reference: string, make: (folder: string) => Promise<void>): Promise<void> {
  await using _ = await machineLock('images', lockMs);
  if (await exists(reference)) return;
  const folder = await mkdtemp(join(tmpdir(), 'setpoint-image-'));
  try {
    await make(folder);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

async function exists(reference: string): Promise<boolean> {
  return (await docker('images', '--quiet', reference)) !== '';
}

/** Of all that the image is made of, but for the versions of Debian's packages. */
function hashOf({ files = {}, ...rest }: PackageImage): string {
  return hash({
    ...rest,
    baseOptions,
    baseChanges,
    files: Object.entries(files).map(([path, content]) => [path, digest(content)]),
  });
}

function hash(recipe: object): string {
  return digest(JSON.stringify(recipe)).slice(0, 16);
}

function digest(content: string | Buffer): string {
  return createHash('sha256').update(content).digest('hex');
}

function isScript(content: string | Buffer): boolean {
  return typeof content === 'string' ? content.startsWith('#!') : content.toString('latin1', 0, 2) === '#!';
}
