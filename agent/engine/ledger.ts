import { z } from 'zod';
import type { WireAssignment } from '../../agent-protocol/assignment.ts';
import { mainService } from '../../agent-protocol/workload.ts';
import type { Container } from '../runtime/runtime.ts';
import { labels } from '../runtime/runtime.ts';
import type { Kept } from '../disk/journaled.ts';
import { Journaled } from '../disk/journaled.ts';

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

interface State {
  made: Set<string>;
  /** Assignments by container name. */
  intents: Map<string, string>;
  /** There is no usable record of the containers that were made: the agent then trusts container names. */
  blank: boolean;
}

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

/** A file that is missing, damaged or not understood as a whole counts as no record. */
const kept: Kept<State, Entry> = {
  entry: Entry,
  read: (entries) => {
    const usable = entries?.every((entry) => entry !== undefined) === true ? entries : undefined;
    const state: State = { made: new Set(), intents: new Map(), blank: usable === undefined };
    for (const entry of usable ?? []) apply(state, entry);
    return state;
  },
  apply,
  whole: ({ blank, made, intents }) => [{ type: 'whole', blank, made: [...made], intents: [...intents] }],
};

/**
 * The containers that this agent made, on disk. An intent is written before a container is created, so that the agent
 * recognises a container whose creation was interrupted. What could not be written is not known, so that a repeated
 * call writes it again.
 */
export class Ledger {
  readonly #journaled: Journaled<State, Entry>;

  private constructor(journaled: Journaled<State, Entry>) {
    this.#journaled = journaled;
  }

  static async open(path: string, key: Buffer): Promise<Ledger> {
    return new Ledger(await Journaled.open(path, key, kept));
  }

  origin(container: Container): Origin {
    const { made, intents, blank } = this.#journaled.state;
    if (made.has(container.id)) return 'made';
    const assignment = container.labels[labels.assignment];
    if (assignment === undefined) return 'foreign';
    if (intents.get(container.name) === assignment) return 'intended';
    if (!container.name.startsWith('sp-') || !container.name.endsWith(`-${assignment.slice(0, 8)}`)) return 'foreign';
    return blank ? 'intended' : 'named';
  }

  /** Call it before a container is created. */
  intend(name: string, assignment: string): Promise<void> {
    return this.#journaled.change(({ intents }) =>
      intents.get(name) === assignment ? undefined : { type: 'intent', name, assignment },
    );
  }

  /** Call it after a container was created or adopted. */
  made(id: string, name: string): Promise<void> {
    return this.#journaled.change(({ made, intents }) =>
      made.has(id) && !intents.has(name) ? undefined : { type: 'made', id, name },
    );
  }

  gone(id: string): Promise<void> {
    return this.#journaled.change(({ made }) => (made.has(id) ? { type: 'gone', id } : undefined));
  }

  /** All existing containers of the agent are recorded: from now on the agent does not trust a name alone. */
  complete(existing: ReadonlySet<string>): Promise<void> {
    return this.#journaled.replace(({ made, intents }) => ({
      type: 'whole',
      blank: false,
      made: [...made].filter((id) => existing.has(id)),
      intents: [...intents],
    }));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#journaled[Symbol.asyncDispose]();
  }
}

function apply(state: State, entry: Entry): void {
  switch (entry.type) {
    case 'whole':
      state.blank = entry.blank;
      state.made = new Set(entry.made);
      state.intents = new Map(entry.intents);
      break;
    case 'intent':
      state.intents.set(entry.name, entry.assignment);
      break;
    case 'made':
      state.made.add(entry.id);
      state.intents.delete(entry.name);
      break;
    case 'gone':
      state.made.delete(entry.id);
      break;
  }
}
