import { z } from 'zod';
import type { Kept } from '../disk/journaled.ts';
import { Journaled } from '../disk/journaled.ts';

const Entry = z.discriminatedUnion('type', [
  z.object({ type: z.literal('made'), name: z.string() }),
  z.object({ type: z.literal('removed'), name: z.string() }),
]);
type Entry = z.infer<typeof Entry>;

/** A missing or damaged file counts as a file without volumes: each is noted again when it is found. */
const kept: Kept<Set<string>, Entry> = {
  entry: Entry,
  read: (entries) => {
    const names = new Set<string>();
    for (const entry of entries ?? []) if (entry !== undefined) apply(names, entry);
    return names;
  },
  apply,
  whole: (names) => [...names].map((name) => ({ type: 'made', name })),
};

/**
 * The volumes that this agent made or found, on disk. A volume that was there once and is gone lost its data: it must
 * not be made again as if nothing had been in it.
 */
export class MadeVolumes {
  readonly #journaled: Journaled<Set<string>, Entry>;

  private constructor(journaled: Journaled<Set<string>, Entry>) {
    this.#journaled = journaled;
  }

  static async open(path: string, key: Buffer): Promise<MadeVolumes> {
    const journaled = await Journaled.open(path, key, kept);
    await journaled.ensureFile();
    return new MadeVolumes(journaled);
  }

  has(name: string): boolean {
    return this.#journaled.state.has(name);
  }

  /** Resolves when the creation is on disk. @throws Error if it cannot be written */
  made(name: string): Promise<void> {
    return this.#journaled.change((names) => (names.has(name) ? undefined : { type: 'made', name }));
  }

  /** Resolves when the removal is on disk. @throws Error if it cannot be written */
  removed(name: string): Promise<void> {
    return this.#journaled.change((names) => (names.has(name) ? { type: 'removed', name } : undefined));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#journaled[Symbol.asyncDispose]();
  }
}

function apply(names: Set<string>, { type, name }: Entry): void {
  if (type === 'made') names.add(name);
  else names.delete(name);
}
