import { readFile } from 'node:fs/promises';
import { z } from 'zod';
import { writeAtomically } from '../disk/atomic-file.ts';

/** More images than a server has. Beyond it the oldest entries are removed. */
const mostConfirmed = 5000;

const File = z.object({
  confirmed: z.array(z.string()).max(mostConfirmed),
  registries: z.array(z.string()).optional(),
});

/** The workload that an image is for. */
export interface ImageOwner {
  tenant: string;
  project: string;
  workload: string;
}

/**
 * What the agent knows about images, on disk: the registries that the tenant allows, and which digests and ids were
 * confirmed for which project. A confirmed image can run while its registry is away. A file that cannot be read counts
 * as empty. Changes are written one after another.
 */
export class ImageRecord {
  readonly #path: string;
  /** Keys in the order of their first confirmation: those on disk. */
  #confirmed: ReadonlySet<string>;
  #registries: readonly string[] | undefined;
  /** The registries on disk: other ones than `#registries` after a write that failed. */
  #storedRegistries: readonly string[] | undefined;
  #last: Promise<void> = Promise.resolve();

  private constructor(path: string, known: z.infer<typeof File>) {
    this.#path = path;
    this.#confirmed = new Set(known.confirmed);
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

  /** Resolves when the confirmation is on disk, and holds from then on. @throws Error if it cannot be written */
  confirm(owner: ImageOwner, digest: string): Promise<void> {
    const key = keyOf(owner, digest);
    return this.#inTurn(async () => {
      if (this.#confirmed.has(key)) return;
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
    await writeAtomically(this.#path, JSON.stringify({ confirmed: [...confirmed], registries }));
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
