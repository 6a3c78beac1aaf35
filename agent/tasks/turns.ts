interface Waiting {
  project: string;
  begin: () => void;
}

/**
 * Limits parallel tasks: a few at a time, and one of each project, so that one project cannot delay all others. The
 * next turn goes to the waiting project whose last task began longest ago; within a project, to the task that came
 * first.
 */
export class Turns {
  readonly #most: number;
  readonly #running = new Set<string>();
  readonly #waiting: Waiting[] = [];
  /** The number of the last task that a project began, for projects with a waiting or running task. */
  readonly #began = new Map<string, number>();
  #count = 0;

  /** @param most number of tasks that may run at a time */
  constructor(most: number) {
    this.#most = most;
  }

  /** Does the work once the project has its turn. @throws the signal's reason if it aborts before the turn */
  async take<T>(project: string, work: () => Promise<T>, signal: AbortSignal): Promise<T> {
    await this.#turn(project, signal);
    try {
      return await work();
    } finally {
      this.#running.delete(project);
      this.#next();
    }
  }

  async #turn(project: string, signal: AbortSignal): Promise<void> {
    signal.throwIfAborted();
    const turn = Promise.withResolvers<void>();
    const waiting = { project, begin: turn.resolve };
    const leave = (): void => {
      const at = this.#waiting.indexOf(waiting);
      if (at === -1) return; // its turn has come: the signal ends the work
      this.#waiting.splice(at, 1);
      this.#forget(project);
      turn.reject(signal.reason as Error); // all callers abort with errors
    };
    this.#waiting.push(waiting);
    signal.addEventListener('abort', leave, { once: true });
    this.#next();
    try {
      await turn.promise;
    } finally {
      signal.removeEventListener('abort', leave);
    }
  }

  #next(): void {
    while (this.#running.size < this.#most) {
      const ready = this.#waiting.filter(({ project }) => !this.#running.has(project));
      const [first] = ready.toSorted((a, b) => this.#beganAt(a) - this.#beganAt(b));
      if (first === undefined) break;
      this.#waiting.splice(this.#waiting.indexOf(first), 1);
      this.#running.add(first.project);
      this.#began.set(first.project, ++this.#count);
      first.begin();
    }
    for (const project of this.#began.keys()) this.#forget(project);
  }

  #beganAt({ project }: Waiting): number {
    return this.#began.get(project) ?? 0;
  }

  #forget(project: string): void {
    if (!this.#running.has(project) && !this.#waiting.some((one) => one.project === project))
      this.#began.delete(project);
  }
}
