/**
 * Carries out one piece of work, never twice at the same time. Whoever asks for it while it is carried out has it carried out once
 * more afterwards, however many ask, so that nothing is missed that changed meanwhile. The work must not reject.
 */
export class Coalesced implements AsyncDisposable {
  readonly #work: () => Promise<void>;
  #isAsked = false;
  #isEnding = false;
  /** Also before the first pause of the work, which may ask for itself. */
  #isRunning = false;
  #running: Promise<void> = Promise.resolve();

  constructor(work: () => Promise<void>) {
    this.#work = work;
  }

  /** It was asked for since it was last begun: it is carried out again. */
  get isAsked(): boolean {
    return this.#isAsked;
  }

  ask(): void {
    this.#isAsked = true;
    if (this.#isEnding || this.#isRunning) return;
    this.#isRunning = true;
    this.#running = this.#run().finally(() => {
      this.#isRunning = false;
      if (this.#isAsked) this.ask(); // between the end of the run and this
    });
  }

  /** Begins nothing more, and waits for what is being done. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#isEnding = true;
    await this.#running;
  }

  async #run(): Promise<void> {
    while (this.#isAsked && !this.#isEnding) {
      this.#isAsked = false;
      await this.#work();
    }
  }
}
