import type { Clock } from '../../time/clock.ts';
import type { Probe } from '../../agent-protocol/workload.ts';
import type { Prober, ProbeResult, ProbeTarget } from '../runtime/probe.ts';

/** The process of a container that is checked. */
export interface Subject {
  /** Changes with every new process. */
  key: string;
  /** Monotonic time at which the process started. */
  since: number;
  /** Time for which the process must be ready before it is stable. */
  stableMs: number;
  /** `undefined`: there is no probe, and the process is ready once it has run for `stableMs`. */
  check: Check | undefined;
}

export interface Check {
  target: ProbeTarget;
  times: Pick<Probe, 'interval_seconds' | 'failures' | 'successes' | 'start_seconds'>;
}

export interface Health {
  ready: boolean;
  /** Ready for the time of the subject without a restart. */
  stable: boolean;
  /** Why it is not ready: after the time for its start, or if it was ready before. */
  problem: string | undefined;
  /** What the check of a process that is not ready saw last, a few seconds after its start. */
  seen?: string | undefined;
}

/** Time after the start of a process in which what its check sees says nothing. */
const seenAfterMs = 5_000;
/** Most of the beginning of an answer that is shown. */
const shownChars = 120;

/**
 * First delay between the probes of a process that is not ready. It grows by a quarter each time, up to `startingMs`, so
 * that the agent notices a quick start quickly. A probe by the engine costs more than one over the network.
 */
const firstMs = { network: 20, engine: 250 };
const growth = 1.25;
const startingMs = 1_000;

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
  /** What its check saw last, and how that is shown. */
  #words: { reason: string; text: string } | undefined;
  /** Monotonic time since when the process has passed its probes; `undefined`: it does not. */
  #readySince: number | undefined;
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

  /** True if the process is probed over the network, so that its health is known also while the engine is away. */
  get isProbedByNetwork(): boolean {
    const { check } = this.#subject ?? {};
    return check !== undefined && isByNetwork(check.target);
  }

  /** True if there is nothing to probe, or the first probe has ended. */
  get settled(): boolean {
    return this.#subject?.check === undefined || this.#looked;
  }

  /**
   * Checks this process from now on; `undefined`: no process. Does nothing if it is the same one. A ready process stays
   * so while it is checked in another way, until that finds otherwise.
   */
  observe(subject: Subject | undefined): void {
    const before = this.#subject;
    if (sameSubject(before, subject)) return;
    this.#subject = subject;
    this.#cancelTimer();
    if (subject !== undefined && before?.key === subject.key) {
      if (sameCheck(before, subject)) {
        this.#timeAgain(subject);
        return;
      }
    } else {
      this.#health = unready;
      this.#words = undefined;
      this.#looked = false;
      this.#readySince = undefined;
    }
    this.#watch?.abort();
    if (subject === undefined) return;
    const { check } = subject;
    if (check === undefined) {
      this.#readyAfter(subject);
      return;
    }
    if (this.#health.ready) this.#stableAfter((this.#readySince ??= subject.since) + subject.stableMs);
    const watch = new AbortController();
    this.#watch = watch;
    void this.#probe(subject, check, watch.signal);
  }

  [Symbol.dispose](): void {
    this.observe(undefined);
  }

  /** The same process has another time in which it becomes stable. What is stable stays so. */
  #timeAgain(subject: Subject): void {
    if (this.#health.stable) return;
    if (subject.check === undefined) this.#readyAfter(subject);
    else if (this.#readySince !== undefined) this.#stableAfter(this.#readySince + subject.stableMs);
  }

  #readyAfter(subject: Subject): void {
    const left = subject.since + subject.stableMs - this.#clock.monotonic();
    if (left <= 0 || this.#health.stable) {
      this.#set({ ready: true, stable: true, problem: undefined });
      return;
    }
    this.#cancelTimer = this.#clock.timer(left, () => this.#readyAfter(subject));
  }

  async #probe(subject: Subject, { target, times }: Check, signal: AbortSignal): Promise<void> {
    let failures = 0;
    let successes = 0;
    let failedBefore = false;
    for (let delay = isByNetwork(target) ? firstMs.network : firstMs.engine; ;) {
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
        successes += 1;
        // A process that passes the first probe counts as ready since its start: a restart of the agent resets nothing.
        if (successes >= times.successes) this.#readySince ??= failedBefore ? now : subject.since;
        if (this.#readySince !== undefined) this.#ready(this.#readySince);
      } else {
        failures += 1;
        successes = 0;
        failedBefore = true;
        if (this.#readySince !== undefined) this.#suspected();
        if (this.#readySince === undefined || failures >= times.failures) {
          this.#readySince = undefined;
          this.#unready(answer, now - subject.since, times.start_seconds * 1000);
        }
      }
      if (first) this.#changed();
      const ms = this.#readySince !== undefined && failures === 0 ? times.interval_seconds * 1000 : delay;
      delay = Math.min(delay * growth, startingMs);
      if (!(await this.#pause(ms, signal))) return;
    }
  }

  #ready(since: number): void {
    if (this.#health.ready) return;
    this.#cancelTimer();
    this.#stableAfter(since + (this.#subject?.stableMs ?? 0));
  }

  #stableAfter(at: number): void {
    const left = at - this.#clock.monotonic();
    this.#set({ ready: true, stable: this.#health.stable || left <= 0, problem: undefined });
    if (!this.#health.stable) this.#cancelTimer = this.#clock.timer(left, () => this.#stableAfter(at));
  }

  /** `lastedMs`: how long the process has run, of which it may need `startMs` for its start. */
  #unready(answer: Exclude<ProbeResult, { ok: true }>, lastedMs: number, startMs: number): void {
    this.#cancelTimer();
    const isReported = this.#health.ready || this.#health.problem !== undefined || lastedMs >= startMs;
    const text = this.#wordsFor(answer);
    const seen = this.#health.ready || lastedMs >= seenAfterMs ? text : undefined;
    this.#set({ ready: false, stable: false, problem: isReported ? text : undefined, seen });
  }

  /** What a check saw. The answer of the first time stands for those after it: it may be another one each time. */
  #wordsFor({ reason, body = '' }: Exclude<ProbeResult, { ok: true }>): string {
    if (this.#words?.reason !== reason) {
      const shown = printable(body).slice(0, shownChars);
      this.#words = { reason, text: shown === '' ? reason : `${reason}: "${shown}"` };
    }
    return this.#words.text;
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
    const isSame = before.ready === health.ready && before.stable === health.stable;
    if (isSame && before.problem === health.problem && before.seen === health.seen) return;
    this.#health = health;
    this.#changed();
  }
}

/** A text of a program on one line, without what controls a terminal. */
function printable(text: string): string {
  return text.replaceAll(/[\p{C}\s]+/gu, ' ').trim();
}

function sameSubject(a: Subject | undefined, b: Subject | undefined): boolean {
  return a?.key === b?.key && a?.stableMs === b?.stableMs && sameCheck(a, b);
}

function sameCheck(a: Subject | undefined, b: Subject | undefined): boolean {
  return JSON.stringify(a?.check) === JSON.stringify(b?.check);
}

function isByNetwork({ type }: ProbeTarget): boolean {
  return type === 'http' || type === 'tcp';
}
