import { execFile } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { docker } from '../harness/engine.ts';
import { mirror } from '../harness/package-sources.ts';

const execute = promisify(execFile);

export interface DebianImage {
  /** Such as `bookworm`. */
  suite: string;
  /** All that it has beside the essential packages. */
  packages: readonly string[];
  /** Adds further files to its tree; `folder` is for files that are not of it. */
  fill?: (folder: string, tree: string) => Promise<void>;
}

/** Installs that suite of Debian into a folder and makes an image of it. Needs root and `debootstrap`. */
export async function importDebian(image: string, { suite, packages, fill }: DebianImage): Promise<void> {
  const folder = await mkdtemp(join(tmpdir(), 'setpoint-debian-'));
  try {
    const tree = join(folder, 'tree');
    const include = `--include=${packages.join(',')}`;
    await execute('debootstrap', ['--variant=minbase', include, suite, tree, ...(await mirror())], {
      maxBuffer: 16 * 1024 * 1024,
    });
    await fill?.(folder, tree);
    const archive = join(folder, 'tree.tar');
    await execute('tar', ['--directory', tree, '--create', '--file', archive, '.']);
    await docker('import', archive, image);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}
