import type { Clock } from '../agent-protocol/clock.ts';
import { stableMs } from './memory.ts';
import type { Prober } from './probe.ts';

/** What is checked: one process of one container. */
export interface Subject {
  /** Changes with every new process. */
  key: string;
  /** Monotonic time at which the process started. */
  since: number;
  /** Absent: running for a while is all that can be asked for. */
  health: { address: string; port: number; path: string } | undefined;
}

export interface Health {
  ready: boolean;
  /** Ready for 10 s without a restart. */
  stable: boolean;
  /** Why it is not ready, after it had a fair chance. */
  problem: string | undefined;
}

/** Fast at first, and never much longer than a quarter of the time that it took already: a quick start is seen quickly. */
const firstMs = 20;
const growth = 1.25;
const startingMs = 1_000;
const runningMs = 10_000;
const failuresUntilUnready = 3;
/** A process that answers nothing for that long is told to be unhealthy. */
const patienceMs = 30_000;

const unready: Health = { ready: false, stable: false, problem: undefined };

/** Follows whether one service instance is ready. Calls `changed` when that changes. */
export class Readiness {
  readonly #clock: Clock;
  readonly #prober: Prober;
  readonly #changed: () => void;
  readonly #suspected: () => void;
  #subject: Subject | undefined;
  #health: Health = unready;
  #looked = false;
  #watch: AbortController | undefined;
  #cancelTimer: () => void = () => undefined;

  constructor(deps: {
    clock: Clock;
    prober: Prober;
    changed: () => void;
    /** A ready process did not answer: there may be more to see than that. */
    suspected: () => void;
  }) {
    this.#clock = deps.clock;
    this.#prober = deps.prober;
    this.#changed = deps.changed;
    this.#suspected = deps.suspected;
  }

  get health(): Health {
    return this.#health;
  }

  /** Its health is seen by asking the process itself. */
  get isProbed(): boolean {
    return this.#subject?.health !== undefined;
  }

  /** There is nothing to look at, or it was looked at. */
  get settled(): boolean {
    return this.#subject?.health === undefined || this.#looked;
  }

  /** From now on about this process; `undefined`: there is none. Does nothing if it is the same one. */
  observe(subject: Subject | undefined): void {
    if (sameSubject(this.#subject, subject)) return;
    this.#watch?.abort();
    this.#cancelTimer();
    this.#health = unready;
    this.#looked = false;
    this.#subject = subject;
    if (subject === undefined) return;
    const { health } = subject;
    if (health === undefined) {
      this.#readyAfter(subject.since + stableMs);
      return;
    }
    const watch = new AbortController();
    this.#watch = watch;
    void this.#probe(subject, health, watch.signal);
  }

  [Symbol.dispose](): void {
    this.observe(undefined);
  }

  #readyAfter(at: number): void {
    const left = at - this.#clock.monotonic();
    if (left <= 0) {
      this.#set({ ready: true, stable: true, problem: undefined });
      return;
    }
    this.#cancelTimer = this.#clock.timer(left, () => this.#readyAfter(at));
  }

  async #probe(subject: Subject, target: NonNullable<Subject['health']>, signal: AbortSignal): Promise<void> {
    let failures = 0;
    let failedBefore = false;
    let readySince: number | undefined;
    for (let delay = firstMs; ;) {
      const problem = await this.#ask(target, signal);
      if (signal.aborted) return;
      const now = this.#clock.monotonic();
      const first = !this.#looked;
      this.#looked = true;
      if (problem === undefined) {
        failures = 0;
        // One that answers at our first look may have done so for as long as it runs: an agent's restart costs nothing.
        readySince ??= failedBefore ? now : subject.since;
        this.#ready(readySince);
      } else {
        failures += 1;
        failedBefore = true;
        if (readySince !== undefined) this.#suspected();
        if (readySince === undefined || failures >= failuresUntilUnready) {
          readySince = undefined;
          this.#unready(problem, subject, now);
        }
      }
      if (first) this.#changed();
      const ms = readySince !== undefined && failures === 0 ? runningMs : delay;
      delay = Math.min(delay * growth, startingMs);
      if (!(await this.#pause(ms, signal))) return;
    }
  }

  #ready(since: number): void {
    const left = since + stableMs - this.#clock.monotonic();
    if (this.#health.ready && (this.#health.stable || left > 0)) return;
    this.#set({ ready: true, stable: left <= 0, problem: undefined });
    this.#cancelTimer();
    if (left > 0) this.#cancelTimer = this.#clock.timer(left, () => this.#ready(since));
  }

  #unready(problem: string, subject: Subject, now: number): void {
    this.#cancelTimer();
    const told = this.#health.ready || this.#health.problem !== undefined || now - subject.since >= patienceMs;
    this.#set({ ready: false, stable: false, problem: told ? problem : undefined });
  }

  /** `undefined` if it answered well, else what was wrong. */
  async #ask(target: NonNullable<Subject['health']>, signal: AbortSignal): Promise<string | undefined> {
    try {
      const answer = await this.#prober.probe(target, signal);
      return answer.ok ? undefined : answer.reason;
    } catch (error) {
      return error instanceof Error ? error.message : 'The health check failed';
    }
  }

  #pause(ms: number, signal: AbortSignal): Promise<boolean> {
    return new Promise((resolve) => {
      const abort = (): void => {
        cancel();
        resolve(false);
      };
      const cancel = this.#clock.timer(ms, () => {
        signal.removeEventListener('abort', abort);
        resolve(true);
      });
      signal.addEventListener('abort', abort, { once: true });
      if (signal.aborted) abort();
    });
  }

  #set(health: Health): void {
    const before = this.#health;
    if (before.ready === health.ready && before.stable === health.stable && before.problem === health.problem) return;
    this.#health = health;
    this.#changed();
  }
}

function sameSubject(a: Subject | undefined, b: Subject | undefined): boolean {
  return a?.key === b?.key && JSON.stringify(a?.health) === JSON.stringify(b?.health);
}
