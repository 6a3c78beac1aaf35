import { createHash } from 'node:crypto';
import { createReadStream, createWriteStream } from 'node:fs';
import { access, mkdir, readFile, rename, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { createGunzip } from 'node:zlib';
import { extract } from 'tar-stream';
import { z } from 'zod';
import type { Platform } from '../../agent-protocol/release-manifest.ts';
import { run } from '../../agent/machine/process.ts';

const root = new URL('../../', import.meta.url).pathname;
const maxOutputBytes = 1024 * 1024;

const Lock = z.object({
  packages: z.record(z.string(), z.object({ version: z.string().optional(), integrity: z.string().optional() })),
});

/**
 * The Node that this project pins, for that platform: the installed one for this machine's own, else the one of its
 * package, which npm fetches and whose integrity the lockfile has. `cache`: where packages are kept for the next time;
 * `work`: a folder of the caller. @throws Error if neither can be had
 */
export async function nodeFor(
  platform: Platform,
  { work, cache }: { work: string; cache: string },
  signal: AbortSignal,
): Promise<string> {
  const name = `node-${platform}`;
  const installed = join(root, 'node_modules', name, 'bin/node');
  if (await exists(installed)) return installed;
  const { version, integrity } = await locked(name);
  const archive = join(cache, `${name}-${version}.tgz`);
  if (!(await exists(archive))) {
    await mkdir(cache, { recursive: true });
    await rename(await fetchPackage(`${name}@${version}`, work, signal), archive);
  }
  const found = await integrityOf(archive, signal);
  if (found !== integrity) {
    await rm(archive);
    throw new Error(
      `The package ${name} ${version} is not the one that package-lock.json names: it is ${found}, and ${integrity} is expected`,
    );
  }
  const node = join(work, name);
  await unpack(archive, 'package/bin/node', node, signal);
  return node;
}

async function locked(name: string): Promise<{ version: string; integrity: string }> {
  const lock = Lock.parse(JSON.parse(await readFile(join(root, 'package-lock.json'), 'utf8')));
  const { version, integrity } = lock.packages[`node_modules/${name}`] ?? {};
  if (version === undefined || integrity === undefined)
    throw new Error(`package-lock.json has no integrity of ${name}: run npm install`);
  return { version, integrity };
}

async function fetchPackage(specifier: string, work: string, signal: AbortSignal): Promise<string> {
  const { code, stdout, stderr } = await run(
    'npm',
    {
      args: ['pack', '--loglevel=error', '--pack-destination', work, specifier],
      cwd: work,
      env: Object.fromEntries(Object.entries(process.env).filter((it): it is [string, string] => it[1] !== undefined)),
      maxOutputBytes,
    },
    signal,
  );
  if (code !== 0) throw new Error(`npm cannot fetch ${specifier}: ${stderr.trim() || `it ended with ${String(code)}`}`);
  return join(work, stdout.trim());
}

async function integrityOf(path: string, signal: AbortSignal): Promise<string> {
  const hash = createHash('sha512');
  for await (const chunk of createReadStream(path, { highWaterMark: 1 << 20, signal })) hash.update(chunk);
  return `sha512-${hash.digest('base64')}`;
}

/** Writes one file of an archive to a path. @throws Error if the archive does not have it */
async function unpack(archive: string, name: string, to: string, signal: AbortSignal): Promise<void> {
  const entries = extract();
  const reading = pipeline(createReadStream(archive, { signal }), createGunzip(), entries);
  reading.catch(() => undefined); // the loop below fails with the same error
  let isFound = false;
  for await (const entry of entries) {
    if (entry.header.name === name) {
      await pipeline(entry, createWriteStream(to, { mode: 0o755 }));
      isFound = true;
    } else entry.resume();
  }
  await reading;
  if (!isFound) throw new Error(`The package ${archive} has no file ${name}`);
}

function exists(path: string): Promise<boolean> {
  return access(path).then(
    () => true,
    () => false,
  );
}
