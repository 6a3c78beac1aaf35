import { execFile } from 'node:child_process';
import { mkdtemp, readFile, rm, symlink } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { z } from 'zod';

const execute = promisify(execFile);
const root = join(import.meta.dirname, '../..');

const Locked = z.record(z.string(), z.object({ version: z.string().optional() }));
const Lock = z.object({ packages: Locked });

/** The programs of an earlier release, from the history of this checkout. */
export class Release implements AsyncDisposable {
  readonly #folder: string;

  private constructor(folder: string) {
    this.#folder = folder;
  }

  /** @throws Error with the way to get the history, where this checkout does not have the commit */
  static async of(commit: string): Promise<Release> {
    await execute('git', ['cat-file', '-e', `${commit}^{commit}`], { cwd: root }).catch((cause: unknown) => {
      const advice = 'get the whole history with `git fetch --unshallow`';
      throw new Error(`This checkout does not have the commit ${commit} of the earlier release: ${advice}`, { cause });
    });
    const release = new Release(await mkdtemp(join(tmpdir(), 'setpoint-release-')));
    try {
      await release.#install(commit);
    } catch (error) {
      await release[Symbol.asyncDispose]();
      throw error;
    }
    return release;
  }

  /** Path of its `setpoint`. */
  get command(): string {
    return join(this.#folder, 'cli/setpoint');
  }

  async #install(commit: string): Promise<void> {
    const archive = join(this.#folder, 'release.tar');
    await execute('git', ['archive', '--output', archive, commit], { cwd: root });
    await execute('tar', ['--extract', '--file', archive, '--directory', this.#folder]);
    if (await this.#hasOurDependencies())
      await symlink(join(root, 'node_modules'), join(this.#folder, 'node_modules'), 'dir');
    else await execute('npm', ['ci', '--ignore-scripts', '--no-audit', '--no-fund'], { cwd: this.#folder });
  }

  /** Whether this checkout has each of its packages in the same version. */
  async #hasOurDependencies(): Promise<boolean> {
    const [theirs, ours] = await Promise.all([lockOf(this.#folder), lockOf(root)]);
    return Object.entries(theirs).every(([path, { version }]) => path === '' || ours[path]?.version === version);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await rm(this.#folder, { recursive: true, force: true });
  }
}

async function lockOf(folder: string): Promise<z.infer<typeof Locked>> {
  return Lock.parse(JSON.parse(await readFile(join(folder, 'package-lock.json'), 'utf8'))).packages;
}
