import type { Clock } from '../../agent-protocol/clock.ts';
import { stableMs } from './memory.ts';
import type { Prober, ProbeResult, ProbeTarget } from '../runtime/probe.ts';

/** The process of a container that is checked. */
export interface Subject {
  /** Changes with every new process. */
  key: string;
  /** Monotonic time at which the process started. */
  since: number;
  /** `undefined`: there is no health check, and the process is ready once it has run for 10 s. */
  health: ProbeTarget | undefined;
}

export interface Health {
  ready: boolean;
  /** Ready for 10 s without a restart. */
  stable: boolean;
  /** Why it is not ready: after 30 s, or if it was ready before. */
  problem: string | undefined;
}

/**
 * First delay between probes. It grows by a quarter each time, up to `startingMs`, so that the agent notices a quick
 * start quickly.
 */
const firstMs = 20;
const growth = 1.25;
const startingMs = 1_000;
const runningMs = 10_000;
const failuresUntilUnready = 3;
/** A process that does not pass its check within this time is reported as unhealthy. */
const patienceMs = 30_000;

const unready: Health = { ready: false, stable: false, problem: undefined };

/** Checks whether one service instance is ready. Calls `changed` when that changes. */
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
    /** Called when a ready process did not answer: its container may have changed. */
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

  /** True if the process has a health check. */
  get isProbed(): boolean {
    return this.#subject?.health !== undefined;
  }

  /** True if there is nothing to probe, or the first probe has ended. */
  get settled(): boolean {
    return this.#subject?.health === undefined || this.#looked;
  }

  /** Checks this process from now on; `undefined`: no process. Does nothing if it is the same one. */
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

  async #probe(subject: Subject, target: ProbeTarget, signal: AbortSignal): Promise<void> {
    let failures = 0;
    let failedBefore = false;
    let readySince: number | undefined;
    for (let delay = firstMs; ;) {
      const answer = await this.#ask(target, signal);
      if (signal.aborted) return;
      if (answer.ok === undefined) {
        // Nothing is known of the process: it stays as ready as it is.
        if (!(await this.#pause(startingMs, signal))) return;
        continue;
      }
      const now = this.#clock.monotonic();
      const first = !this.#looked;
      this.#looked = true;
      if (answer.ok) {
        failures = 0;
        // A process that passes the first probe counts as ready since its start: a restart of the agent resets nothing.
        readySince ??= failedBefore ? now : subject.since;
        this.#ready(readySince);
      } else {
        failures += 1;
        failedBefore = true;
        if (readySince !== undefined) this.#suspected();
        if (readySince === undefined || failures >= failuresUntilUnready) {
          readySince = undefined;
          this.#unready(answer.reason, subject, now);
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

  async #ask(target: ProbeTarget, signal: AbortSignal): Promise<ProbeResult> {
    try {
      return await this.#prober.probe(target, signal);
    } catch (error) {
      return { ok: false, reason: error instanceof Error ? error.message : 'The health check failed' };
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
