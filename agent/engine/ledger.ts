import { z } from 'zod';
import type { WireAssignment } from '../../agent-protocol/assignment.ts';
import { mainService } from '../../agent-protocol/workload.ts';
import type { Container } from '../runtime/runtime.ts';
import { labels } from '../runtime/runtime.ts';
import { Journal } from '../disk/journal.ts';

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
 * Where a container with the agent's labels comes from. `made`: the agent made it. `intended`: the agent began to make
 * it and got no answer, or its ledger is lost. `named`: made from outside with a name of this assignment. `foreign`:
 * all others.
 */
export type Origin = 'made' | 'intended' | 'named' | 'foreign';

/** The name of the container of a service assignment. It is unique, so a second container fails at the runtime. */
export function containerName(item: Pick<WireAssignment, 'id' | 'workload_name' | 'service'>): string {
  const service = item.service === mainService ? '' : `-${item.service}`;
  return `sp-${item.workload_name}${service}-${item.id.slice(0, 8)}`;
}

/**
 * The containers that this agent made, on disk. An intent is written before a container is created, so that the agent
 * recognises a container whose creation was interrupted.
 */
export class Ledger {
  readonly #journal: Journal;
  readonly #made: Set<string>;
  /** Assignments by container name. */
  readonly #intents: Map<string, string>;
  /** There is no usable record of the containers that were made: the agent then trusts container names. */
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

  /** Call it before a container is created. */
  async intend(name: string, assignment: string): Promise<void> {
    if (this.#intents.get(name) === assignment) return;
    await this.#write({ type: 'intent', name, assignment });
  }

  /** Call it after a container was created or adopted. */
  async made(id: string, name: string): Promise<void> {
    if (this.#made.has(id) && !this.#intents.has(name)) return;
    await this.#write({ type: 'made', id, name });
  }

  async gone(id: string): Promise<void> {
    if (this.#made.has(id)) await this.#write({ type: 'gone', id });
  }

  /** All existing containers of the agent are recorded: from now on the agent does not trust a name alone. */
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
    // The entry is applied only once it is on disk, so that a repeated call writes it again.
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
