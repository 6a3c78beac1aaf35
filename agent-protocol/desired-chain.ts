import type { AgentHost } from './agent-host.ts';
import type { WireConfiguration, WireItem } from './assignment.ts';
import { desiredDigest } from './desired-digest.ts';
import type { ControlMessage } from './messages.ts';
import { bounds } from './timing.ts';

type MessageOf<T extends ControlMessage['type']> = Extract<ControlMessage, { type: T }>;
export type DesiredMessage = MessageOf<'snapshot.begin' | 'snapshot.part' | 'snapshot.end' | 'delta'>;

/** What the chain needs from the agent. */
type DesiredSet = Pick<AgentHost, 'snapshot' | 'delta' | 'report'>;

/** An item has a lower generation than the known one: it is of another history than the set, or there is a defect. */
export class OutdatedItem extends Error {
  constructor(id: string) {
    super(`Assignment ${id} must not go back to a lower generation`);
  }
}

interface Hooks {
  applied: (revision: number) => void;
  needSnapshot: (why: string) => void;
  /** The assignment was dropped, and the agent has no report of it. */
  absent: (id: string) => void;
  /** A set could not be stored. */
  failed: (error: unknown) => void;
}

/**
 * The agent's side of the chain of desired sets. A connection starts without a set: its first message must be a
 * snapshot, so that nothing is removed because of an earlier session. One `need_snapshot` answers a delta that does not
 * continue the chain or has an outdated item, an inconsistent snapshot, and a set that could not be stored. Deltas are
 * then ignored until the snapshot comes.
 */
export class DesiredChain {
  #set: DesiredSet;
  #hooks: Hooks;
  /** Revision at the end of the chain, with sets that are still being stored; `undefined`: a snapshot must start it. */
  #revision: number | undefined;
  #assembly: { begin: MessageOf<'snapshot.begin'>; items: WireItem[]; configurations: WireConfiguration[] } | undefined;
  #asked = false;
  #storing: Promise<void> = Promise.resolve();
  #stopped = false;

  constructor(set: DesiredSet, hooks: Hooks) {
    this.#set = set;
    this.#hooks = hooks;
  }

  receive(message: DesiredMessage): void {
    switch (message.type) {
      case 'snapshot.begin':
        this.#asked = false;
        this.#assembly = { begin: message, items: [], configurations: [] };
        return;
      case 'snapshot.part':
        this.#part(message);
        return;
      case 'snapshot.end':
        this.#finish(message.revision);
        return;
      case 'delta':
        this.#delta(message);
    }
  }

  /** A set that is being stored is finished, but `applied` is not called any more. */
  stop(): void {
    this.#stopped = true;
  }

  #part({ items, configurations = [] }: MessageOf<'snapshot.part'>): void {
    if (this.#assembly === undefined) return;
    this.#assembly.items.push(...items);
    this.#assembly.configurations.push(...configurations);
    if (this.#assembly.items.length > bounds.snapshotItems) this.#ask('Snapshot has too many items');
  }

  #finish(revision: number): void {
    const assembly = this.#assembly;
    this.#assembly = undefined;
    if (assembly === undefined) return this.#ask('Snapshot ended before it began');
    const { begin, items, configurations } = assembly;
    if (begin.revision !== revision) return this.#ask('Snapshot ended at another revision than it began');
    if (begin.count !== items.length) return this.#ask('Snapshot does not have the items that it announced');
    if (begin.digest !== desiredDigest(items)) return this.#ask('Snapshot does not have the digest that it announced');
    this.#revision = revision;
    this.#store(async () => {
      await this.#set.snapshot({ incarnation: begin.incarnation, revision }, items, begin.keep, configurations);
      this.#applied(revision);
    });
  }

  #delta({ from, to, put, drop, configurations = [] }: MessageOf<'delta'>): void {
    if (this.#asked) return;
    if (this.#assembly !== undefined) return this.#ask('Delta came within a snapshot');
    if (this.#revision === undefined) return this.#ask('Delta came before a snapshot');
    if (this.#revision !== from) return this.#ask(`Delta continues ${from}, the set is at ${this.#revision}`);
    this.#revision = to;
    this.#store(async () => {
      await this.#set.delta(to, put, drop, configurations);
      this.#applied(to);
      for (const id of drop) if (this.#set.report(id) === undefined) this.#hooks.absent(id);
    });
  }

  #store(act: () => Promise<void>): void {
    this.#storing = this.#storing.then(async () => {
      if (this.#stopped || this.#asked) return;
      try {
        await act();
      } catch (error) {
        if (error instanceof OutdatedItem) return this.#ask(error.message);
        this.#hooks.failed(error);
        this.#ask('Set could not be stored');
      }
    });
  }

  #applied(revision: number): void {
    if (!this.#stopped) this.#hooks.applied(revision);
  }

  #ask(why: string): void {
    this.#assembly = undefined;
    this.#revision = undefined;
    if (this.#asked || this.#stopped) return;
    this.#asked = true;
    this.#hooks.needSnapshot(why);
  }
}
