import type { Logger } from 'pino';
import type { WireAssignment, WireBuild, WireReport } from '../../agent-protocol/assignment.ts';
import type { Clock } from '../../agent-protocol/clock.ts';
import { wait } from '../../agent-protocol/clock.ts';
import type { BuildProgress, BuildSource } from './build-progress.ts';
import type { BuildTurns } from './build-turns.ts';
import { deadline } from '../runtime/deadline.ts';
import type { DesiredSet } from '../desired/desired.ts';
import { clean } from '../logs/clean.ts';
import { guessLevel } from '../logs/level.ts';
import type { LogStore } from '../logs/log-store.ts';
import { isDiskFull } from '../disk/disk-full.ts';
import type { Results } from './results.ts';
import { RuntimeFailure } from '../runtime/runtime.ts';

/** A build item of the desired set. */
export type BuildItem = WireAssignment & { spec: WireBuild };

export interface BuildResult extends BuildSource {
  /** Id of the image that was built. */
  image: string;
}

/** Makes the image of an item. @throws RuntimeFailure */
export type RunBuild = (item: BuildItem, progress: BuildProgress, signal: AbortSignal) => Promise<BuildResult>;

/** What all build workers of an agent share. */
export interface BuildDeps {
  build: RunBuild;
  desired: DesiredSet;
  results: Pick<Results, 'get' | 'put' | 'forget'>;
  logs: LogStore;
  turns: BuildTurns;
  clock: Clock;
  log: Logger;
  reported: (report: WireReport) => void;
  /** Called when a build ended, with any result. */
  built: () => void;
}

const retryResultMs = 5_000;

/**
 * Runs the attempts of one build assignment, each to one result, which is on disk before it is reported. An attempt
 * that the end of the agent interrupted runs again: a build changes nothing but its image.
 */
export class BuildWorker {
  readonly id: string;
  readonly #deps: BuildDeps;
  #desired: BuildItem | undefined;
  #report: WireReport | undefined;
  #closed = false;
  #attempt: { key: string; stop: AbortController; ended: Promise<void> } | undefined;

  constructor(id: string, deps: BuildDeps) {
    this.id = id;
    this.#deps = deps;
  }

  get report(): WireReport | undefined {
    return this.#report;
  }

  /** The attempt's result was reported, and no line of it will follow. */
  get ended(): boolean {
    return this.#attempt === undefined && this.#report !== undefined && this.#report.phase !== 'pending';
  }

  /** Always true: a build does not need to inspect the runtime. */
  readonly settled = true;

  start(): void {
    this.#reconcile();
  }

  wake(): void {
    // Nothing in the runtime concerns a build.
  }

  desire(desired: BuildItem | undefined): void {
    this.#desired = desired;
    this.#reconcile();
  }

  acknowledged(): void {
    // Builds have no events.
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#closed = true;
    const attempt = this.#attempt;
    attempt?.stop.abort(new Error('The agent is stopping'));
    await attempt?.ended;
  }

  #reconcile(): void {
    const desired = this.#desired;
    const key = desired === undefined || desired.run === 'stopped' ? undefined : keyOf(desired);
    if (this.#attempt !== undefined && this.#attempt.key !== key)
      this.#attempt.stop.abort(new Error('The build is not wanted any more'));
    if (desired === undefined) {
      if (this.#attempt === undefined) this.#gone();
      return;
    }
    if (desired.run === 'stopped') {
      this.#tell({ ...blank(desired), phase: this.#attempt === undefined ? 'stopped' : 'stopping' });
      return;
    }
    const known = this.#deps.results.get(this.id, desired.spec.attempt);
    if (known !== undefined) {
      this.#tell({ ...known.report, generation: desired.generation });
      return;
    }
    if (this.#attempt === undefined) this.#begin(desired);
    else if (this.#report !== undefined) this.#tell({ ...this.#report, generation: desired.generation });
  }

  #begin(desired: BuildItem): void {
    const stop = new AbortController();
    const attempt = { key: keyOf(desired), stop, ended: Promise.resolve() };
    this.#attempt = attempt;
    this.#tell({ ...blank(desired), phase: 'pending' });
    attempt.ended = this.#run(desired, stop.signal)
      .catch((error: unknown) => {
        if (!stop.signal.aborted) this.#deps.log.error({ err: error, assignment: this.id }, 'Build could not be run');
      })
      .finally(() => {
        this.#attempt = undefined;
        this.#deps.logs.nudge(desired.workload_id);
        this.#deps.built();
        if (!this.#closed) this.#reconcile();
      });
  }

  async #run(desired: BuildItem, signal: AbortSignal): Promise<void> {
    const { turns, results, clock, log } = this.#deps;
    const project = `${desired.tenant} ${desired.project_id}`;
    const report = await turns.take(project, () => this.#attemptOnce(desired, signal), signal);
    // A result that is not on disk must not be reported: after a restart of the agent the attempt would run again.
    for (;;) {
      signal.throwIfAborted();
      try {
        await results.put({ id: this.id, attempt: desired.spec.attempt, report });
        return;
      } catch (error) {
        log.error({ err: error, assignment: this.id }, 'Result of a build cannot be stored');
        await wait(clock, retryResultMs, signal);
      }
    }
  }

  async #attemptOnce(desired: BuildItem, signal: AbortSignal): Promise<WireReport> {
    const { build, logs, clock, log } = this.#deps;
    this.#tell({ ...blank(desired), phase: 'running' });
    const tell = (stream: 'build' | 'system', text: string): void => {
      const at = clock.now().getTime();
      const entries = clean(text)
        .split('\n')
        .map((message) => ({ at, stream, level: guessLevel(message), instance: this.id, message }));
      logs.append(desired.workload_id, entries, signal).catch((error: unknown) => {
        log.warn({ err: error, assignment: this.id }, 'Build output cannot be stored');
      });
    };
    const seconds = desired.spec.deadline_seconds;
    let source: BuildSource | undefined;
    const progress: BuildProgress = {
      line: (text) => tell('build', text),
      checkedOut: (found) => (source = found),
    };
    using limit = deadline(clock, seconds * 1000, 'The build', signal);
    try {
      const result = await build(desired, progress, limit.signal);
      await logs.flushed(desired.workload_id);
      return { ...blank(desired), ...commitOf(result), phase: 'succeeded', image_digest: result.image };
    } catch (error) {
      signal.throwIfAborted();
      const late = limit.signal.aborted;
      if (!late && !(error instanceof RuntimeFailure)) log.error({ err: error, assignment: this.id }, 'Build failed');
      const isWaiting = error instanceof RuntimeFailure && error.code === 'runtime_unavailable';
      const failure =
        late && !isWaiting
          ? { code: 'build_timeout', message: `The build did not end within ${seconds} s` }
          : failureOf(error);
      tell('system', failure.message);
      await logs.flushed(desired.workload_id);
      return { ...blank(desired), ...commitOf(source), phase: 'failed', error: failure };
    }
  }

  #gone(): void {
    this.#deps.results.forget(this.id).catch((error: unknown) => {
      this.#deps.log.warn({ err: error, assignment: this.id }, 'Result of a build cannot be removed');
    });
    const generation = this.#deps.desired.tombstone(this.id)?.generation ?? this.#report?.generation ?? 0;
    this.#tell({ ...blank({ id: this.id, generation }), phase: 'stopped', gone: true });
  }

  #tell(report: WireReport): void {
    if (JSON.stringify(this.#report) === JSON.stringify(report)) return;
    this.#report = report;
    this.#deps.reported(report);
  }
}

function keyOf(desired: BuildItem): string {
  return `${desired.spec_hash} ${desired.spec.attempt}`;
}

function blank(item: { id: string; generation: number }): Omit<WireReport, 'phase'> {
  return { id: item.id, generation: item.generation, ready: false, stable: false, restarts: 0, crash_loop: false };
}

function commitOf(source: BuildSource | undefined): Pick<WireReport, 'commit' | 'commit_message'> {
  return source === undefined ? {} : { commit: source.commit, commit_message: source.commitMessage };
}

function failureOf(error: unknown): { code: string; message: string } {
  if (error instanceof RuntimeFailure) return { code: error.code, message: error.message };
  return isDiskFull(error)
    ? { code: 'no_space', message: "There is no space left on the server's disk for the build" }
    : { code: 'build_failed', message: 'The build failed: the agent log has the cause' };
}
