import { z } from 'zod';
import type { Container } from './runtime/runtime.ts';
import { labels } from './runtime/runtime.ts';
import { Journal } from './journal.ts';

const Entry = z.discriminatedUnion('type', [
  z.object({
    type: z.literal('whole'),
    blank: z.boolean(),
    made: z.array(z.string()),
    intents: z.array(z.tuple([z.string(), z.string()])),
  }),
  z.object({ type: z.literal('intent'), name: z.string(), assignment: z.string() }),
  z.object({ type: z.literal('made'), id: z.string(), name: z.string() }),
  z.object({ type: z.literal('gone'), id: z.string() }),
]);
type Entry = z.infer<typeof Entry>;

const rewriteSlackBytes = 64 * 1024;

/**
 * How a container that carries our labels came to be: by this agent; by it or by a creation whose answer it never saw;
 * by somebody who used the name of one of our assignments; by a stranger.
 */
export type Origin = 'made' | 'intended' | 'named' | 'foreign';

/** The name of the one container of a service assignment. A second creation of it fails at the runtime. */
export function containerName(alias: string, assignment: string): string {
  return `sp-${alias}-${assignment.slice(0, 8)}`;
}

/**
 * Which containers this agent made, on disk. An intent is written before a container is created, so that one whose
 * creation was interrupted is recognised.
 */
export class Ledger {
  readonly #journal: Journal;
  readonly #made: Set<string>;
  /** By container name: the assignment. */
  readonly #intents: Map<string, string>;
  /** The record of what was made is lost (or never existed): names have to be believed. */
  #blank: boolean;
  #rewriteAt: number;

  private constructor(journal: Journal, entries: readonly Entry[] | undefined) {
    this.#journal = journal;
    this.#made = new Set();
    this.#intents = new Map();
    this.#blank = entries === undefined;
    this.#rewriteAt = 2 * journal.bytes + rewriteSlackBytes;
    for (const entry of entries ?? []) this.#apply(entry);
  }

  static async open(path: string, key: Buffer): Promise<Ledger> {
    const { journal, records } = await Journal.open(path, key);
    const entries = records?.map((record) => Entry.safeParse(JSON.parse(record.toString())).data);
    const usable = entries?.every((entry) => entry !== undefined) === true ? entries : undefined;
    return new Ledger(journal, usable);
  }

  origin(container: Container): Origin {
    if (this.#made.has(container.id)) return 'made';
    const assignment = container.labels[labels.assignment];
    if (assignment === undefined) return 'foreign';
    if (this.#intents.get(container.name) === assignment) return 'intended';
    if (!container.name.startsWith('sp-') || !container.name.endsWith(`-${assignment.slice(0, 8)}`)) return 'foreign';
    return this.#blank ? 'intended' : 'named';
  }

  /** Before a container is created. */
  async intend(name: string, assignment: string): Promise<void> {
    if (this.#intents.get(name) === assignment) return;
    await this.#write({ type: 'intent', name, assignment });
  }

  /** After it was created or adopted. */
  async made(id: string, name: string): Promise<void> {
    if (this.#made.has(id) && !this.#intents.has(name)) return;
    await this.#write({ type: 'made', id, name });
  }

  async gone(id: string): Promise<void> {
    if (this.#made.has(id)) await this.#write({ type: 'gone', id });
  }

  /** Every container that exists now was recorded: from here on a name alone proves nothing. */
  async complete(existing: ReadonlySet<string>): Promise<void> {
    for (const id of this.#made) if (!existing.has(id)) this.#made.delete(id);
    this.#blank = false;
    await this.#rewrite();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#journal[Symbol.asyncDispose]();
  }

  async #write(entry: Entry): Promise<void> {
    if (this.#journal.bytes === 0) await this.#rewrite();
    // What is not on disk is not known: a repeated call writes it again.
    await this.#journal.append(Buffer.from(JSON.stringify(entry)));
    this.#apply(entry);
    if (this.#journal.bytes > this.#rewriteAt) await this.#rewrite();
  }

  async #rewrite(): Promise<void> {
    const whole: Entry = {
      type: 'whole',
      blank: this.#blank,
      made: [...this.#made],
      intents: [...this.#intents],
    };
    await this.#journal.rewrite([Buffer.from(JSON.stringify(whole))]);
    this.#rewriteAt = 2 * this.#journal.bytes + rewriteSlackBytes;
  }

  #apply(entry: Entry): void {
    switch (entry.type) {
      case 'whole':
        this.#blank = entry.blank;
        for (const id of entry.made) this.#made.add(id);
        for (const [name, assignment] of entry.intents) this.#intents.set(name, assignment);
        break;
      case 'intent':
        this.#intents.set(entry.name, entry.assignment);
        break;
      case 'made':
        this.#made.add(entry.id);
        this.#intents.delete(entry.name);
        break;
      case 'gone':
        this.#made.delete(entry.id);
        break;
    }
  }
}
