import type { WireAssignment, WireReport } from './assignment.ts';
import { desiredDigest } from './desired-digest.ts';
import type { ControlMessage, Position } from './messages.ts';
import { bounds } from './timing.ts';

type MessageOf<T extends ControlMessage['type']> = Extract<ControlMessage, { type: T }>;
export type DesiredMessage = MessageOf<'snapshot.begin' | 'snapshot.part' | 'snapshot.end' | 'delta'>;

interface DesiredSet {
  item(id: string): WireAssignment | undefined;
  snapshot(position: Position, items: readonly WireAssignment[]): Promise<void>;
  delta(to: number, put: readonly WireAssignment[], drop: readonly string[]): Promise<void>;
  report(id: string): WireReport | undefined;
}

interface Hooks {
  applied: (revision: number) => void;
  needSnapshot: (why: string) => void;
  /** Dropped, and the agent has nothing of it. */
  absent: (id: string) => void;
  /** A set could not be stored. */
  failed: (error: unknown) => void;
}

/**
 * The agent's side of the chain of desired sets. A connection starts without a set: its first message must be a snapshot,
 * so that nothing is removed on the word of an earlier session. A delta that does not continue the chain, a snapshot that
 * does not add up and a set that could not be stored are answered by one `need_snapshot`; deltas are then ignored until
 * the snapshot comes.
 */
export class DesiredChain {
  #set: DesiredSet;
  #hooks: Hooks;
  /** End of the chain, counting what is still being stored; `undefined`: only a snapshot can start it. */
  #revision: number | undefined;
  #assembly: { begin: MessageOf<'snapshot.begin'>; items: WireAssignment[] } | undefined;
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
        this.#assembly = { begin: message, items: [] };
        return;
      case 'snapshot.part':
        this.#part(message.items);
        return;
      case 'snapshot.end':
        this.#finish(message.revision);
        return;
      case 'delta':
        this.#delta(message);
    }
  }

  /** What is being stored is finished, and told to nobody. */
  stop(): void {
    this.#stopped = true;
  }

  #part(items: readonly WireAssignment[]): void {
    if (this.#assembly === undefined) return;
    this.#assembly.items.push(...items);
    if (this.#assembly.items.length > bounds.snapshotItems) this.#ask('Snapshot has too many items');
  }

  #finish(revision: number): void {
    const assembly = this.#assembly;
    this.#assembly = undefined;
    if (assembly === undefined) return this.#ask('Snapshot ended before it began');
    const { begin, items } = assembly;
    if (begin.revision !== revision) return this.#ask('Snapshot ended at another revision than it began');
    if (begin.count !== items.length) return this.#ask('Snapshot does not have the items that it announced');
    if (begin.digest !== desiredDigest(items)) return this.#ask('Snapshot does not have the digest that it announced');
    this.#revision = revision;
    this.#store(async () => {
      const kept = begin.keep.map((id) => this.#set.item(id)).filter((item) => item !== undefined);
      await this.#set.snapshot({ incarnation: begin.incarnation, revision }, [...items, ...kept]);
      this.#applied(revision);
    });
  }

  #delta({ from, to, put, drop }: MessageOf<'delta'>): void {
    if (this.#asked) return;
    if (this.#assembly !== undefined) return this.#ask('Delta came within a snapshot');
    if (this.#revision === undefined) return this.#ask('Delta came before a snapshot');
    if (this.#revision !== from) return this.#ask(`Delta continues ${from}, the set is at ${this.#revision}`);
    this.#revision = to;
    this.#store(async () => {
      await this.#set.delta(to, put, drop);
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
