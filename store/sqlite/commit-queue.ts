import { StoreError } from '../errors.ts';
import type { Engine } from './engine.ts';
import { toCommitError } from './failure.ts';

/** Jobs of one SQLite transaction: bounds how long a group holds the event loop. */
const groupSize = 256;

interface Job {
  run: () => unknown;
  done: (outcome: () => unknown) => void;
}

/**
 * Group commit. Jobs of the same turn of the event loop run in order in one SQLite transaction, each seeing what the
 * earlier ones wrote, and all are answered after its commit: one flush to disk for all of them.
 */
export class CommitQueue {
  readonly #engine: Engine;
  readonly #committed: () => void;
  #jobs: Job[] = [];
  #scheduled = false;

  /** `committed` is called after every commit that moved the revision, before the jobs are answered. */
  constructor(engine: Engine, committed: () => void) {
    this.#engine = engine;
    this.#committed = committed;
  }

  /**
   * Resolves with what `job` returns, once that is durable. A job that throws a StoreError must have written nothing:
   * it alone fails. Any other error fails the whole group: see `toCommitError`.
   */
  run<T>(job: () => T): Promise<T> {
    return new Promise<T>((resolve, reject) => {
      const done = (outcome: () => unknown): void => {
        try {
          resolve(outcome() as T); // the outcome of this very job
        } catch (error) {
          reject(error as Error); // whatever was thrown is passed on
        }
      };
      this.#jobs.push({ run: job, done });
      this.#schedule();
    });
  }

  /** Runs what is queued now. */
  flush(): void {
    while (this.#jobs.length > 0) this.#runGroup();
  }

  #schedule(): void {
    if (this.#scheduled) return;
    this.#scheduled = true;
    setImmediate(() => {
      this.#scheduled = false;
      this.#runGroup();
      if (this.#jobs.length > 0) this.#schedule();
    });
  }

  #runGroup(): void {
    const group = this.#jobs.splice(0, groupSize);
    if (group.length === 0) return;
    const before = this.#engine.head.revision;
    let outcomes: (() => unknown)[];
    try {
      outcomes = this.#engine.atomically(() => group.map((job) => outcomeOf(job.run)));
    } catch (error) {
      const failure = toCommitError(error);
      outcomes = group.map(() => () => {
        throw failure;
      });
    }
    if (this.#engine.head.revision !== before) this.#committed();
    group.forEach((job, index) => job.done(outcomes[index] ?? (() => undefined)));
  }
}

function outcomeOf(run: () => unknown): () => unknown {
  try {
    const result = run();
    return () => result;
  } catch (error) {
    if (!(error instanceof StoreError)) throw error;
    return () => {
      throw error;
    };
  }
}
