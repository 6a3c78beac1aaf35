import { z } from 'zod';
import { WireReport } from '../../agent-protocol/assignment.ts';
import type { Kept } from '../disk/journaled.ts';
import { Journaled } from '../disk/journaled.ts';

const Result = z.object({ id: z.string(), attempt: z.int(), report: WireReport });
export type Result = z.infer<typeof Result>;
const Entry = z.discriminatedUnion('type', [
  z.object({ type: z.literal('result'), result: Result }),
  z.object({ type: z.literal('forgotten'), id: z.string() }),
  z.object({ type: z.literal('begun'), id: z.string(), attempt: z.int() }),
  z.object({ type: z.literal('pinned'), id: z.string(), attempt: z.int(), commit: z.string() }),
]);

type Entry = z.infer<typeof Entry>;

interface State {
  /** Result of each task. */
  results: Map<string, Result>;
  /** The attempt of each task that began and has no result; there may be the result of an earlier attempt. */
  begun: Map<string, number>;
  /** The commit that the attempt of a build checked out, until there is a result. */
  pinned: Map<string, { attempt: number; commit: string }>;
}

/** A missing or damaged file counts as a file without results. An entry that is not understood is left out. */
const kept: Kept<State, Entry> = {
  entry: Entry,
  read: (entries) => {
    const state: State = { results: new Map(), begun: new Map(), pinned: new Map() };
    for (const entry of entries ?? []) if (entry !== undefined) apply(state, entry);
    return state;
  },
  apply,
  // A result ends the attempt that began before it, so that the beginnings come last.
  whole: ({ results, begun, pinned }) => [
    ...[...results.values()].map((result) => ({ type: 'result' as const, result })),
    ...[...begun].map(([id, attempt]) => ({ type: 'begun' as const, id, attempt })),
    ...[...pinned].map(([id, pin]) => ({ type: 'pinned' as const, id, ...pin })),
  ],
};

/** Results of tasks. A result is on disk before it is reported, so that no finished attempt runs again. */
export class Results {
  readonly #journaled: Journaled<State, Entry>;

  private constructor(journaled: Journaled<State, Entry>) {
    this.#journaled = journaled;
  }

  static async open(path: string, key: Buffer): Promise<Results> {
    const journaled = await Journaled.open(path, key, kept);
    await journaled.ensureFile();
    return new Results(journaled);
  }

  get(id: string, attempt: number): Result | undefined {
    const result = this.#journaled.state.results.get(id);
    return result?.attempt === attempt ? result : undefined;
  }

  /** Notes on disk that an attempt begins, so that it is known if it was interrupted. @throws as {@link put} */
  begin(id: string, attempt: number): Promise<void> {
    return this.#journaled.change(() => ({ type: 'begun', id, attempt }));
  }

  /** True if the attempt began and has no result. */
  hasBegun(id: string, attempt: number): boolean {
    return this.#journaled.state.begun.get(id) === attempt;
  }

  /** Notes on disk which commit an attempt checked out. @throws as {@link put} */
  pin(id: string, attempt: number, commit: string): Promise<void> {
    return this.#journaled.change(() => ({ type: 'pinned', id, attempt, commit }));
  }

  /** The commit that an attempt without a result had checked out. */
  pinOf(id: string, attempt: number): string | undefined {
    const pin = this.#journaled.state.pinned.get(id);
    return pin?.attempt === attempt ? pin.commit : undefined;
  }

  /** Stores a result. It is visible to `get` only once it is on disk. @throws Error if it cannot be written */
  put(result: Result): Promise<void> {
    return this.#journaled.change(() => ({ type: 'result', result }));
  }

  /** Removes the result of a task that is no longer desired. @throws as {@link put} */
  forget(id: string): Promise<void> {
    return this.#journaled.change(({ results, begun, pinned }) =>
      results.has(id) || begun.has(id) || pinned.has(id) ? { type: 'forgotten', id } : undefined,
    );
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#journaled[Symbol.asyncDispose]();
  }
}

function apply({ results, begun, pinned }: State, entry: Entry): void {
  switch (entry.type) {
    case 'result':
      results.set(entry.result.id, entry.result);
      begun.delete(entry.result.id);
      pinned.delete(entry.result.id);
      break;
    case 'forgotten':
      results.delete(entry.id);
      begun.delete(entry.id);
      pinned.delete(entry.id);
      break;
    case 'begun':
      begun.set(entry.id, entry.attempt);
      break;
    case 'pinned':
      pinned.set(entry.id, { attempt: entry.attempt, commit: entry.commit });
      break;
  }
}
