import { createHash } from 'node:crypto';
import { lstat, mkdir } from 'node:fs/promises';
import { isArchived, isSegment, segmentBytes } from '../../databases/wal.ts';
import { HeldFolder } from '../disk/held-folder.ts';

/** Files that one look takes; more of them wait for the next one. */
const mostListed = 10_000;

/** The folder of a volume into which an engine puts complete segments. Its database may write to it, too. */
export class Outbox implements AsyncDisposable {
  readonly #folder: HeldFolder;

  private constructor(folder: HeldFolder) {
    this.#folder = folder;
  }

  /** Makes the folder, which belongs to whom the data belongs to. @throws Error if there is no data yet */
  static async open(path: string, cluster: string): Promise<Outbox> {
    const { uid, gid } = await lstat(cluster);
    await mkdir(path, { mode: 0o700 }).catch((error: NodeJS.ErrnoException) => {
      if (error.code !== 'EEXIST') throw error;
    });
    const folder = await HeldFolder.open(path);
    await folder.own(uid, gid);
    return new Outbox(folder);
  }

  /** Files that wait, in the order in which they are to be sent: segments last, by their names. */
  async waiting(): Promise<string[]> {
    const names = (await this.#folder.names()).filter(isArchived).toSorted();
    return [...names.filter((name) => !isSegment(name)), ...names.filter(isSegment)].slice(0, mostListed);
  }

  /** @throws Error if it is no file, or has more than a segment */
  async read(name: string): Promise<{ bytes: Buffer; sha256: string }> {
    await using file = await this.#folder.file(name);
    const found = await file.stat();
    if (!found.isFile() || found.size > segmentBytes)
      throw new Error(`${name} is no file of ${segmentBytes} bytes at most`);
    const bytes = Buffer.alloc(found.size);
    const { bytesRead } = await file.read(bytes, 0, bytes.length, 0);
    if (bytesRead !== bytes.length) throw new Error(`${name} has become shorter`);
    return { bytes, sha256: createHash('sha256').update(bytes).digest('hex') };
  }

  async remove(names: readonly string[]): Promise<void> {
    await this.#folder.remove(names);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#folder[Symbol.asyncDispose]();
  }
}
