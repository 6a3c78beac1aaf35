import type { z } from 'zod';
import { Journal } from './journal.ts';

/** A file may grow by its own size and this much before it is compacted. */
const slackBytes = 64 * 1024;

/** How a state of one kind is kept in a journal. */
export interface Kept<State, Entry> {
  entry: z.ZodType<Entry>;
  /**
   * Returns the state that a file holds. `undefined` in place of the entries: the file is missing or damaged. In place
   * of one entry: this release does not understand that entry.
   */
  read: (entries: readonly (Entry | undefined)[] | undefined) => State;
  /** Applies an entry to the state. */
  apply: (state: State, entry: Entry) => void;
  /** Returns entries of which `read` makes this state. */
  whole: (state: State) => Entry[];
}

/**
 * A state in memory whose changes are in a journal. Changes take effect one after another, in the order of their calls:
 * a change is decided, appended and applied in one turn, and a compaction is part of a turn. So none of them is computed
 * from a state that lacks an earlier change. A change that throws has not changed the state.
 */
export class Journaled<State, Entry> {
  readonly state: State;
  readonly #journal: Journal;
  readonly #kept: Kept<State, Entry>;
  #compactAt: number;
  #last: Promise<void> = Promise.resolve();

  private constructor(journal: Journal, kept: Kept<State, Entry>, state: State) {
    this.#journal = journal;
    this.#kept = kept;
    this.state = state;
    this.#compactAt = 2 * journal.bytes + slackBytes;
  }

  /**
   * A file that is missing or damaged stays as it is until the first change or {@link ensureFile}.
   * @throws Error if it cannot be read
   */
  static async open<State, Entry>(
    path: string,
    key: Buffer,
    kept: Kept<State, Entry>,
  ): Promise<Journaled<State, Entry>> {
    const { journal, records } = await Journal.open(path, key);
    const entries = records?.map((record) => kept.entry.safeParse(JSON.parse(record.toString())).data);
    return new Journaled(journal, kept, kept.read(entries));
  }

  /** Writes the state to a file that is missing or damaged. @throws Error if it cannot be written */
  ensureFile(): Promise<void> {
    return this.#inTurn(() => this.#ensureFile());
  }

  /**
   * Makes the change that `decide` returns for the state of its turn, and none if it returns `undefined`. Resolves when
   * the change is on disk. @throws Error if it cannot be written
   */
  change(decide: (state: State) => Entry | undefined): Promise<void> {
    return this.#inTurn(async () => {
      const entry = decide(this.state);
      if (entry === undefined) return;
      await this.#ensureFile();
      await this.#journal.append(encode(entry));
      this.#kept.apply(this.state, entry);
      if (this.#journal.bytes <= this.#compactAt) return;
      // The change is on disk: a compaction that fails does not undo it, and the next change tries again.
      await this.#rewrite(this.#kept.whole(this.state)).catch(() => undefined);
    });
  }

  /**
   * Makes the change that `decide` returns for the state of its turn, and replaces the file by that entry alone: it must
   * hold the whole state. Resolves when it is on disk. @throws Error if it cannot be written
   */
  replace(decide: (state: State) => Entry): Promise<void> {
    return this.#inTurn(async () => {
      const entry = decide(this.state);
      await this.#rewrite([entry]);
      this.#kept.apply(this.state, entry);
    });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#last;
    await this.#journal[Symbol.asyncDispose]();
  }

  async #ensureFile(): Promise<void> {
    if (this.#journal.needsRewrite) await this.#rewrite(this.#kept.whole(this.state));
  }

  async #rewrite(entries: readonly Entry[]): Promise<void> {
    await this.#journal.rewrite(entries.map(encode));
    this.#compactAt = 2 * this.#journal.bytes + slackBytes;
  }

  #inTurn(work: () => Promise<void>): Promise<void> {
    const done = this.#last.then(work);
    this.#last = done.catch(() => undefined);
    return done;
  }
}

function encode(entry: unknown): Buffer {
  return Buffer.from(JSON.stringify(entry));
}
