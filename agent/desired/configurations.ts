import { createHash } from 'node:crypto';
import { mkdir, readdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import { WireConfiguration } from '../../agent-protocol/assignment.ts';
import { deriveKey, Journal } from '../disk/journal.ts';

type Configuration = Omit<WireConfiguration, 'id'>;

/**
 * The configurations that the items of the desired set refer to, on disk: one encrypted file each, readable by its
 * owner only. A file that is damaged or was written with another key is ignored.
 */
export class Configurations {
  readonly #folder: string;
  readonly #key: Buffer;
  readonly #held = new Map<string, Configuration>();
  /** Names of all files in the folder. */
  readonly #files: Set<string>;

  private constructor(folder: string, key: Buffer, files: Set<string>) {
    this.#folder = folder;
    this.#key = key;
    this.#files = files;
  }

  /** @throws Error if the folder cannot be made or a file cannot be read */
  static async open(folder: string, key: Buffer): Promise<Configurations> {
    await mkdir(folder, { recursive: true, mode: 0o700 });
    const it = new Configurations(folder, key, new Set(await readdir(folder)));
    for (const file of it.#files) {
      const read = await it.#read(file);
      if (read !== undefined) it.#held.set(read.id, contentOf(read));
    }
    return it;
  }

  get(id: string): Configuration | undefined {
    return this.#held.get(id);
  }

  /** Stores configurations. Resolves when they are on disk. */
  async add(configurations: readonly WireConfiguration[]): Promise<void> {
    for (const it of configurations) {
      if (isDeepStrictEqual(this.#held.get(it.id), contentOf(it))) continue; // each session sends them again
      const file = fileOf(it.id);
      this.#files.add(file);
      await using journal = await this.#journal(file);
      await journal.rewrite([Buffer.from(JSON.stringify(it))]);
      this.#held.set(it.id, contentOf(it));
    }
  }

  /** Removes all configurations except these. A file that cannot be removed now is removed by the next call. */
  async retain(ids: ReadonlySet<string>): Promise<void> {
    const kept = new Set([...ids].map(fileOf));
    for (const id of this.#held.keys()) if (!ids.has(id)) this.#held.delete(id);
    for (const file of this.#files) {
      if (kept.has(file)) continue;
      const removed = await rm(join(this.#folder, file), { force: true }).then(
        () => true,
        () => false, // the disk cannot be written; the file does no harm, as no item refers to it
      );
      if (removed) this.#files.delete(file);
    }
  }

  async #read(file: string): Promise<WireConfiguration | undefined> {
    const { journal, records } = await Journal.open(join(this.#folder, file), deriveKey(this.#key, file));
    await journal[Symbol.asyncDispose]();
    const [record] = records ?? [];
    return record === undefined ? undefined : WireConfiguration.safeParse(JSON.parse(record.toString())).data;
  }

  async #journal(file: string): Promise<Journal> {
    return (await Journal.open(join(this.#folder, file), deriveKey(this.#key, file))).journal;
  }
}

function contentOf(configuration: WireConfiguration): Configuration {
  const { id: _, ...content } = configuration;
  return content;
}

/** Name of the file of a configuration. Ids come over the wire, so they are hashed and cannot form a path. */
function fileOf(id: string): string {
  return createHash('sha256').update(id).digest('hex');
}
