import { z } from 'zod';
import { Journal } from '../disk/journal.ts';

const Entry = z.discriminatedUnion('type', [
  z.object({ type: z.literal('made'), name: z.string() }),
  z.object({ type: z.literal('removed'), name: z.string() }),
]);
type Entry = z.infer<typeof Entry>;

const rewriteSlackBytes = 64 * 1024;

/**
 * The volumes that this agent made or found, on disk. A volume that was there once and is gone lost its data: it must
 * not be made again as if nothing had been in it.
 */
export class MadeVolumes {
  readonly #journal: Journal;
  readonly #names: Set<string>;

  private constructor(journal: Journal, names: Set<string>) {
    this.#journal = journal;
    this.#names = names;
  }

  /** A missing or damaged file counts as a file without volumes: each is noted again when it is found. */
  static async open(path: string, key: Buffer): Promise<MadeVolumes> {
    const { journal, records } = await Journal.open(path, key);
    const names = new Set<string>();
    for (const record of records ?? []) {
      const entry = Entry.safeParse(JSON.parse(record.toString())).data;
      if (entry?.type === 'made') names.add(entry.name);
      else if (entry?.type === 'removed') names.delete(entry.name);
    }
    if (records === undefined) await journal.rewrite([]);
    return new MadeVolumes(journal, names);
  }

  has(name: string): boolean {
    return this.#names.has(name);
  }

  /** Resolves when it is on disk. @throws Error if it cannot be written */
  async made(name: string): Promise<void> {
    if (this.#names.has(name)) return;
    await this.#write({ type: 'made', name }, new Set(this.#names).add(name));
  }

  /** As {@link made}. */
  async removed(name: string): Promise<void> {
    if (!this.#names.has(name)) return;
    await this.#write({ type: 'removed', name }, new Set([...this.#names].filter((one) => one !== name)));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#journal[Symbol.asyncDispose]();
  }

  /** The names change only once that is on disk. */
  async #write(entry: Entry, after: ReadonlySet<string>): Promise<void> {
    if (this.#journal.bytes < rewriteSlackBytes) await this.#journal.append(encode(entry));
    else await this.#journal.rewrite([...after].map((name) => encode({ type: 'made', name })));
    this.#names.clear();
    for (const name of after) this.#names.add(name);
  }
}

function encode(entry: Entry): Buffer {
  return Buffer.from(JSON.stringify(entry));
}
