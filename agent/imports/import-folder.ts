import { constants } from 'node:fs';
import { mkdir, open, readlink, realpath } from 'node:fs/promises';
import type { FileHandle } from 'node:fs/promises';
import { isAbsolute, join, relative } from 'node:path';
import { isBelow } from '../disk/contained-path.ts';
import { ImportFault } from './import-fault.ts';

const mostCharacters = 1024;

/** The folder below which an operator puts dumps that may be imported. What is in it may be changed at any time. */
export class ImportFolder {
  readonly #path: string;

  private constructor(path: string) {
    this.#path = path;
  }

  /** Makes the folder if it is not there. */
  static async open(path: string): Promise<ImportFolder> {
    await mkdir(path, { recursive: true, mode: 0o700 });
    return new ImportFolder(await realpath(path));
  }

  /**
   * Opens a file by its path below the folder, or by its whole path. What was opened is judged, so that no link leads out of
   * the folder, whenever it was made.
   *
   * @throws ImportFault `invalid_path`
   */
  async file(path: string): Promise<FileHandle> {
    const file = await this.#opened(this.#below(path), path);
    try {
      const real = await readlink(`/proc/self/fd/${file.fd}`);
      if (!isBelow(this.#path, real)) throw this.#fault(path, 'leads out of it by a link');
      if (!(await file.stat()).isFile()) throw this.#fault(path, 'is no file');
      return file;
    } catch (error) {
      await file.close();
      throw error;
    }
  }

  #below(path: string): string {
    const plain = isAbsolute(path) ? relative(this.#path, path) : path;
    const parts = plain.split('/');
    const isWrong =
      plain === '' || plain.length > mostCharacters || plain.includes('\0') || parts.some((part) => part === '..');
    if (isWrong) throw this.#fault(path, 'is not below it');
    return join(this.#path, plain);
  }

  async #opened(real: string, path: string): Promise<FileHandle> {
    try {
      // a pipe would keep the opening waiting
      return await open(real, constants.O_RDONLY | constants.O_NONBLOCK);
    } catch (error) {
      const { code } = error as NodeJS.ErrnoException; // of the file system
      throw this.#fault(path, code === 'ENOENT' || code === 'ENOTDIR' ? 'is not there' : 'cannot be read');
    }
  }

  #fault(path: string, what: string): ImportFault {
    const shown = JSON.stringify(path.slice(0, 200));
    return new ImportFault(
      'invalid_path',
      `Only files below ${this.#path} of the server are imported, and ${shown} ${what}: put the dump there`,
    );
  }
}
