import { readFile } from 'node:fs/promises';
import { z } from 'zod';
import { writeAtomically } from '../disk/atomic-file.ts';

/** More images than a server has. Beyond it the oldest entries are removed. */
const mostConfirmed = 5000;

/** Most images whose pull is remembered: those beyond it, used the longest ago, are never removed. */
const mostPulled = 2000;
/** Most names by which one image is known. */
const mostDigests = 20;

/** An image that this agent brought to the machine. */
const PulledImage = z.object({
  id: z.string(),
  /** Repository digests under which it was pulled. */
  digests: z.array(z.string()),
  /** When it was pulled or used last, in milliseconds since 1970. */
  usedAt: z.number(),
});
export type PulledImage = z.infer<typeof PulledImage>;

const File = z.object({
  confirmed: z.array(z.string()).max(mostConfirmed),
  registries: z.array(z.string()).optional(),
  /** Absent from files of earlier releases, which kept none. */
  pulled: z.array(PulledImage).optional(),
});

/** The workload that an image is for. */
export interface ImageOwner {
  tenant: string;
  project: string;
  workload: string;
}

/**
 * What the agent knows about images, on disk: the registries that the tenant allows, which digests and ids were confirmed
 * for which project, and which images it pulled itself. A confirmed image can run while its registry is away. A file that
 * cannot be read counts as empty. Changes are written one after another.
 */
export class ImageRecord {
  readonly #path: string;
  /** Keys in the order of their first confirmation: those on disk. */
  #confirmed: ReadonlySet<string>;
  /** Images that were not on the machine before this agent pulled them, by id. */
  readonly #pulled: Map<string, PulledImage>;
  #registries: readonly string[] | undefined;
  /** The registries on disk: other ones than `#registries` after a write that failed. */
  #storedRegistries: readonly string[] | undefined;
  #last: Promise<void> = Promise.resolve();

  private constructor(path: string, known: z.infer<typeof File>) {
    this.#path = path;
    this.#confirmed = new Set(known.confirmed);
    this.#pulled = new Map((known.pulled ?? []).map((it) => [it.id, it]));
    this.#registries = known.registries;
    this.#storedRegistries = known.registries;
  }

  static async open(path: string): Promise<ImageRecord> {
    const text = await readFile(path, 'utf8').catch(() => '');
    return new ImageRecord(path, parsed(text) ?? { confirmed: [] });
  }

  /** `undefined`: the control plane never sent a list. */
  get registries(): readonly string[] | undefined {
    return this.#registries;
  }

  has(owner: ImageOwner, digest: string): boolean {
    return this.#confirmed.has(keyOf(owner, digest));
  }

  /** Images that this agent pulled, as far as it knows. */
  list(): readonly PulledImage[] {
    return [...this.#pulled.values()];
  }

  /** The image is used; without effect for one that this agent did not pull. The next write stores it. */
  used(id: string, at: number): void {
    const known = this.#pulled.get(id);
    if (known !== undefined && known.usedAt < at) this.#pulled.set(id, { ...known, usedAt: at });
  }

  /** These images are gone. @throws Error if that cannot be written: it holds all the same */
  forget(ids: readonly string[]): Promise<void> {
    const known = ids.filter((id) => this.#pulled.delete(id));
    return known.length === 0 ? Promise.resolve() : this.#inTurn(() => this.#write(this.#confirmed));
  }

  /**
   * An image was pulled. `isNew`: it was not on the machine before. Resolves when that and its confirmation are on disk.
   * @throws Error if it cannot be written: then only the confirmation does not hold
   */
  pulled(owner: ImageOwner, { id, digest }: { id: string; digest: string }, isNew: boolean, at: number): Promise<void> {
    const known = this.#pulled.get(id);
    const digests = [...new Set([...(known?.digests ?? []), digest])].slice(-mostDigests);
    const isNews = isNew ? known === undefined : known !== undefined && digests.length > known.digests.length;
    if (isNew || known !== undefined) this.#pulled.set(id, { id, digests, usedAt: at });
    return this.confirm(owner, digest, isNews);
  }

  /**
   * Resolves when the confirmation is on disk, and holds from then on. `isNews`: there is something else to write, too.
   * @throws Error if it cannot be written
   */
  confirm(owner: ImageOwner, digest: string, isNews = false): Promise<void> {
    const key = keyOf(owner, digest);
    return this.#inTurn(async () => {
      if (this.#confirmed.has(key) && !isNews) return;
      await this.#write(new Set([...this.#confirmed, key].slice(-mostConfirmed)));
    });
  }

  /**
   * Sets the registries that the tenant allows. The list holds at once, also if it cannot be written: a registry that is
   * not allowed any more is not asked. Resolves when it is on disk; the next write or call after a failure stores it.
   * @throws Error if it cannot be written
   */
  allow(registries: readonly string[]): Promise<void> {
    this.#registries = [...registries];
    return this.#inTurn(async () => {
      if (JSON.stringify(this.#registries) !== JSON.stringify(this.#storedRegistries))
        await this.#write(this.#confirmed);
    });
  }

  async #write(confirmed: ReadonlySet<string>): Promise<void> {
    const registries = this.#registries;
    const pulled = this.list()
      .toSorted((a, b) => a.usedAt - b.usedAt)
      .slice(-mostPulled);
    await writeAtomically(this.#path, JSON.stringify({ confirmed: [...confirmed], registries, pulled }));
    this.#confirmed = confirmed;
    this.#storedRegistries = registries;
  }

  #inTurn(work: () => Promise<void>): Promise<void> {
    const done = this.#last.then(work);
    this.#last = done.catch(() => undefined);
    return done;
  }
}

function parsed(text: string): z.infer<typeof File> | undefined {
  try {
    return File.safeParse(JSON.parse(text)).data;
  } catch {
    return undefined;
  }
}

function keyOf({ tenant, project }: ImageOwner, digest: string): string {
  return `${tenant} ${project} ${digest}`;
}
