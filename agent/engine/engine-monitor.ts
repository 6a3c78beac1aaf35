import type { Logger } from 'pino';
import type { Clock } from '../../time/clock.ts';
import type { EngineState } from '../../agent-protocol/messages.ts';
import { deadline } from '../runtime/deadline.ts';
import type { Engine } from './engine.ts';
import { RuntimeFailure } from '../runtime/runtime.ts';

/** A silence up to this time is not reported: a restart of the engine takes less. */
const hiccupMs = 10_000;
const versionMs = 3_000;

/**
 * The state of the container engine, from the results of the observer. States: unknown → answering ⇄ silent. The engine
 * is in trouble if it has been silent for `hiccupMs`, or fails before it ever answered.
 */
export class EngineMonitor {
  readonly #engine: Pick<Engine, 'runtime' | 'trouble'>;
  readonly #clock: Clock;
  readonly #log: Logger;
  readonly #closing = new AbortController();
  readonly #failed = Promise.withResolvers<void>();
  #silence: { since: number; error: unknown } | undefined;
  #answered: PromiseWithResolvers<void> | undefined = Promise.withResolvers();
  #everAnswered = false;
  #version: string | undefined;
  #asking: Promise<void> | undefined;

  constructor({ engine, clock, log }: { engine: Pick<Engine, 'runtime' | 'trouble'>; clock: Clock; log: Logger }) {
    this.#engine = engine;
    this.#clock = clock;
    this.#log = log;
  }

  get state(): EngineState {
    const trouble = this.#trouble;
    return {
      ...(this.#version !== undefined && { version: this.#version }),
      ...(trouble !== undefined && { trouble }),
    };
  }

  get #trouble(): EngineState['trouble'] {
    const silence = this.#silence;
    if (silence === undefined || this.#clock.monotonic() - silence.since < hiccupMs) return undefined;
    return this.#engine.trouble(silence.error);
  }

  get isSilent(): boolean {
    return this.#silence !== undefined;
  }

  /** Resolves when the engine first fails to answer: callers that wait for it may then go on without it. */
  get failed(): Promise<void> {
    return this.#failed.promise;
  }

  /** The engine answers, for the first time or again. Asks for its version, which may have changed. */
  returned(): void {
    this.#silence = undefined;
    this.#everAnswered = true;
    this.#answered?.resolve();
    this.#answered = undefined;
    this.#asking = this.#askVersion();
  }

  /** Resolves when the request for the version has ended, if there is one. */
  async asked(): Promise<void> {
    await this.#asking;
  }

  silent(error: unknown): void {
    this.#failed.resolve();
    const since = this.#everAnswered ? this.#clock.monotonic() : Number.NEGATIVE_INFINITY;
    this.#silence = { since: this.#silence?.since ?? since, error };
    this.#answered ??= Promise.withResolvers();
  }

  /**
   * Resolves once the engine answers.
   * @throws RuntimeFailure `runtime_unavailable` if it does not answer before the signal aborts
   */
  async answers(signal: AbortSignal): Promise<void> {
    const aborted = Promise.withResolvers<never>();
    const abort = (): void => {
      const why =
        this.#silence === undefined
          ? 'The container engine was not asked yet'
          : this.#engine.trouble(this.#silence.error).message;
      aborted.reject(new RuntimeFailure('runtime_unavailable', why, { retryable: true, cause: signal.reason }));
    };
    signal.addEventListener('abort', abort, { once: true });
    try {
      if (signal.aborted) abort();
      await Promise.race([this.#answered?.promise, aborted.promise]);
    } finally {
      signal.removeEventListener('abort', abort);
    }
  }

  [Symbol.dispose](): void {
    this.#closing.abort(new Error('The agent is stopping'));
  }

  async #askVersion(): Promise<void> {
    using limit = deadline(this.#clock, versionMs, 'Asking for the version of the engine', this.#closing.signal);
    try {
      this.#version = (await this.#engine.runtime.version(limit.signal)).slice(0, 64);
    } catch (error) {
      if (!this.#closing.signal.aborted) this.#log.debug({ err: error }, 'The version of the engine is not known');
    }
  }
}
