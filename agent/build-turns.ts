interface Waiting {
  project: string;
  begin: () => void;
}

/**
 * Turns of builds: a few at a time, and one of each project, so that no project keeps another from having one. Of the
 * projects that wait, the one that began its last build the longest ago is next; within a project the first that came.
 */
export class BuildTurns {
  readonly #most: number;
  readonly #running = new Set<string>();
  readonly #waiting: Waiting[] = [];
  /** Projects with a build that waits or runs, in the order in which they began one. */
  readonly #began = new Map<string, number>();
  #count = 0;

  /** @param most how many builds run at a time */
  constructor(most: number) {
    this.#most = most;
  }

  /** Does the work in a turn of that project. @throws the signal's reason when it aborts before the turn has come */
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
      if (at === -1) return; // its turn has come, and the work ends by the signal
      this.#waiting.splice(at, 1);
      this.#forget(project);
      turn.reject(signal.reason as Error); // our signals abort with errors only
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
