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
 * as empty.
 */
export class ImageRecord {
  readonly #path: string;
  /** Keys in the order of their first confirmation. */
  readonly #confirmed: Set<string>;
  #registries: readonly string[] | undefined;
  #writing: Promise<void> = Promise.resolve();

  private constructor(path: string, known: z.infer<typeof File>) {
    this.#path = path;
    this.#confirmed = new Set(known.confirmed);
    this.#registries = known.registries;
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

  /** Resolves when the confirmation is on disk. @throws Error if it cannot be written */
  async confirm(owner: ImageOwner, digest: string): Promise<void> {
    const key = keyOf(owner, digest);
    if (this.#confirmed.has(key)) return;
    this.#confirmed.add(key);
    for (const oldest of this.#confirmed) {
      if (this.#confirmed.size <= mostConfirmed) break;
      this.#confirmed.delete(oldest);
    }
    await this.#write();
  }

  /**
   * Sets the registries that the tenant allows. Resolves when they are on disk.
   * @throws Error if they cannot be written
   */
  async allow(registries: readonly string[]): Promise<void> {
    if (JSON.stringify(registries) === JSON.stringify(this.#registries)) return;
    this.#registries = [...registries];
    await this.#write();
  }

  #write(): Promise<void> {
    const written = this.#writing.then(() =>
      writeAtomically(this.#path, JSON.stringify({ confirmed: [...this.#confirmed], registries: this.#registries })),
    );
    this.#writing = written.catch(() => undefined);
    return written;
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
