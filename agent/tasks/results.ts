import { z } from 'zod';
import { WireReport } from '../../agent-protocol/assignment.ts';
import { Journal } from '../disk/journal.ts';

const Result = z.object({ id: z.string(), attempt: z.int(), report: WireReport });
export type Result = z.infer<typeof Result>;
const Entry = z.discriminatedUnion('type', [
  z.object({ type: z.literal('result'), result: Result }),
  z.object({ type: z.literal('forgotten'), id: z.string() }),
  z.object({ type: z.literal('begun'), id: z.string(), attempt: z.int() }),
]);

const rewriteSlackBytes = 256 * 1024;

/** Results of tasks. A result is on disk before it is reported, so that no finished attempt runs again. */
export class Results {
  readonly #journal: Journal;
  readonly #results: Map<string, Result>;
  /** By task: the attempt that began and has no result. */
  readonly #begun: Map<string, number>;

  private constructor(journal: Journal, results: Map<string, Result>, begun: Map<string, number>) {
    this.#journal = journal;
    this.#results = results;
    this.#begun = begun;
  }

  static async open(path: string, key: Buffer): Promise<Results> {
    const { journal, records } = await Journal.open(path, key);
    const results = new Map<string, Result>();
    const begun = new Map<string, number>();
    for (const record of records ?? []) {
      const entry = Entry.safeParse(JSON.parse(record.toString())).data;
      if (entry?.type === 'begun') begun.set(entry.id, entry.attempt);
      else if (entry !== undefined) begun.delete(entry.type === 'result' ? entry.result.id : entry.id);
      if (entry?.type === 'result') results.set(entry.result.id, entry.result);
      else if (entry?.type === 'forgotten') results.delete(entry.id);
    }
    if (records === undefined) await journal.rewrite([]);
    return new Results(journal, results, begun);
  }

  get(id: string, attempt: number): Result | undefined {
    const result = this.#results.get(id);
    return result?.attempt === attempt ? result : undefined;
  }

  /** Notes on disk that an attempt begins, so that it is known if it was interrupted. @throws as {@link put} */
  async begin(id: string, attempt: number): Promise<void> {
    await this.#append({ type: 'begun', id, attempt });
    this.#begun.set(id, attempt);
  }

  /** True if the attempt began and has no result. */
  hasBegun(id: string, attempt: number): boolean {
    return this.#begun.get(id) === attempt;
  }

  /** Stores a result. It is visible to `get` only once it is on disk. @throws Error if it cannot be written */
  async put(result: Result): Promise<void> {
    if (this.#journal.bytes < rewriteSlackBytes) await this.#append({ type: 'result', result });
    else await this.#rewrite(new Map(this.#results).set(result.id, result));
    this.#results.set(result.id, result);
    this.#begun.delete(result.id);
  }

  /** Removes the result of a task that is no longer desired. */
  async forget(id: string): Promise<void> {
    const isKnown = this.#results.delete(id) || this.#begun.has(id);
    this.#begun.delete(id);
    if (isKnown) await this.#append({ type: 'forgotten', id });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#journal[Symbol.asyncDispose]();
  }

  #append(entry: z.infer<typeof Entry>): Promise<void> {
    return this.#journal.append(Buffer.from(JSON.stringify(entry)));
  }

  #rewrite(results: ReadonlyMap<string, Result>): Promise<void> {
    const entries: z.infer<typeof Entry>[] = [...results.values()].map((result) => ({ type: 'result', result }));
    for (const [id, attempt] of this.#begun) if (!results.has(id)) entries.push({ type: 'begun', id, attempt });
    return this.#journal.rewrite(entries.map((entry) => Buffer.from(JSON.stringify(entry))));
  }
}
