import { constants } from 'node:fs';
import { open, readdir, rm } from 'node:fs/promises';
import type { FileHandle } from 'node:fs/promises';

/**
 * A folder that others may write to, such as one in the volume of a database, which is held open: none of its paths leads out
 * of it, also if the folder is replaced by a link meanwhile, or a file in it. Names are those of direct entries.
 */
export class HeldFolder implements AsyncDisposable {
  readonly #handle: FileHandle;

  private constructor(handle: FileHandle) {
    this.#handle = handle;
  }

  /** @throws Error if it is no folder, or a link to one */
  static async open(path: string): Promise<HeldFolder> {
    return new HeldFolder(await open(path, constants.O_RDONLY | constants.O_DIRECTORY | constants.O_NOFOLLOW));
  }

  async own(uid: number, gid: number): Promise<void> {
    await this.#handle.chown(uid, gid);
  }

  async names(): Promise<string[]> {
    return readdir(this.#path);
  }

  /** @throws Error for a link, and for an absent file */
  async file(name: string): Promise<FileHandle> {
    return open(this.#of(name), constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
  }

  /** Writes a file that is not there yet. */
  async write(name: string, bytes: Uint8Array, mode: number): Promise<void> {
    const { O_WRONLY, O_CREAT, O_EXCL, O_NOFOLLOW } = constants;
    await using file = await open(this.#of(name), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, mode);
    await file.writeFile(bytes);
    await file.sync();
  }

  /** Removes files; absent ones are fine. Resolves when that is on the disk. */
  async remove(names: readonly string[]): Promise<void> {
    for (const name of names) await rm(this.#of(name), { force: true });
    await this.#handle.sync();
  }

  get #path(): string {
    return `/proc/self/fd/${this.#handle.fd}`;
  }

  #of(name: string): string {
    if (name === '' || name === '.' || name === '..' || name.includes('/'))
      throw new Error(`${name} is no name of a file`);
    return `${this.#path}/${name}`;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#handle.close();
  }
}
