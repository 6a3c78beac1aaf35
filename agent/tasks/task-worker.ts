import { blankReport, reportOf } from '../../agent-protocol/assignment.ts';
import type { WireAssignment, WireReport } from '../../agent-protocol/assignment.ts';
import { wait } from '../../time/clock.ts';
import type { LogLine } from '../../agent-protocol/logs.ts';
import type { TaskRow } from '../../agent-protocol/task-table.ts';
import type { TaskKnown } from '../../agent-protocol/task-types.ts';
import type { Progress } from '../../agent-protocol/workload.ts';
import { deadline } from '../runtime/deadline.ts';
import type { Worker, WorkerDeps } from '../desired/worker.ts';
import { clean } from '../logs/clean.ts';
import { guessLevel } from '../logs/level.ts';
import type { LogStore } from '../logs/log-store.ts';
import { isDiskFull } from '../disk/disk-full.ts';
import type { Results } from './results.ts';
import type { Overflow } from '../engine/storage-watch.ts';
import { RuntimeFailure } from '../runtime/runtime.ts';
import { Paced } from './paced.ts';
import type { TaskItem, TaskProgress, TaskWork } from './task.ts';
import { isTask } from './task.ts';

/** What all task workers of an agent share. */
export interface TaskDeps extends WorkerDeps {
  results: Pick<Results, 'get' | 'put' | 'forget' | 'begin' | 'hasBegun'>;
  logs: LogStore;
}

const retryStoreMs = 5_000;
/** Each report of progress is a write of the control plane. */
const progressEveryMs = 1_000;

/**
 * Runs the attempts of one task, each to one result, which is on disk before it is reported. `ifInterrupted` of
 * its type decides what becomes of an attempt that the end of the agent interrupted.
 */
export class TaskWorker implements Worker {
  readonly id: string;
  readonly #row: TaskRow;
  readonly #work: TaskWork;
  readonly #deps: TaskDeps;
  #desired: TaskItem | undefined;
  #report: WireReport | undefined;
  #closed = false;
  #attempt: { key: string; stop: AbortController; ended: Promise<void> } | undefined;

  constructor(id: string, { row, work }: { row: TaskRow; work: TaskWork }, deps: TaskDeps) {
    this.id = id;
    this.#row = row;
    this.#work = work;
    this.#deps = deps;
  }

  get report(): WireReport | undefined {
    return this.#report;
  }

  /** The attempt's result was reported, and no line of it will follow. */
  get ended(): boolean {
    return this.#attempt === undefined && this.#report !== undefined && this.#report.phase !== 'pending';
  }

  /** Always true: a task does not need to inspect the runtime. */
  readonly settled = true;

  start(): void {
    this.#reconcile();
  }

  wake(): void {
    // Nothing in the runtime concerns a task.
  }

  desire(desired: WireAssignment | undefined): void {
    this.#desired = desired !== undefined && isTask(desired) ? desired : undefined;
    this.#reconcile();
  }

  acknowledged(): void {
    // Tasks have no events.
  }

  overflowed(overflow: Overflow): void {
    this.#work.overflowed?.(this.id, overflow);
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
      this.#attempt.stop.abort(new Error(`The ${this.#row.noun} is not desired any more`));
    if (desired === undefined) {
      if (this.#attempt === undefined) this.#gone();
      return;
    }
    if (desired.run === 'stopped') {
      this.#sendReport({ ...blankReport(desired), phase: this.#attempt === undefined ? 'stopped' : 'stopping' });
      return;
    }
    const known = this.#deps.results.get(this.id, desired.spec.attempt);
    if (known !== undefined) {
      this.#sendReport({ ...known.report, generation: desired.generation });
      return;
    }
    if (this.#attempt === undefined) this.#begin(desired);
    else if (this.#report !== undefined) this.#sendReport({ ...this.#report, generation: desired.generation });
  }

  #begin(desired: TaskItem): void {
    const stop = new AbortController();
    const attempt = { key: keyOf(desired), stop, ended: Promise.resolve() };
    this.#attempt = attempt;
    this.#sendReport({ ...blankReport(desired), phase: 'pending' });
    attempt.ended = this.#run(desired, stop.signal)
      .catch((error: unknown) => {
        if (!stop.signal.aborted)
          this.#deps.log.error(
            { err: error, assignment: this.id },
            'A task ended by an error of the agent, which is a bug',
          );
      })
      .finally(() => {
        this.#attempt = undefined;
        this.#deps.logs.nudge(desired.workload_id);
        this.#work.ended?.();
        if (!this.#closed) this.#reconcile();
      });
  }

  async #run(desired: TaskItem, signal: AbortSignal): Promise<void> {
    const { results } = this.#deps;
    const turn = this.#work.turnOf?.(desired) ?? `${desired.tenant} ${desired.project_id}`;
    const isInterrupted = this.#row.ifInterrupted === 'lost' && results.hasBegun(this.id, desired.spec.attempt);
    const report = isInterrupted
      ? await this.#lost(desired, signal)
      : await this.#work.turns.take(turn, () => this.#attemptOnce(desired, signal), signal);
    // A result that is not on disk must not be reported: after a restart of the agent the attempt would run again.
    await this.#stored(() => results.put({ id: this.id, attempt: desired.spec.attempt, report }), signal);
    if (report.phase === 'lost') return;
    await this.#work.recorded?.(desired).catch((error: unknown) => {
      this.#deps.log.warn({ err: error, assignment: this.id }, 'Cannot remove what a task needs no more');
    });
  }

  /** Resolves once the write succeeded. @throws the signal's reason */
  async #stored(write: () => Promise<void>, signal: AbortSignal): Promise<void> {
    const { clock, log } = this.#deps;
    for (;;) {
      signal.throwIfAborted();
      try {
        await write();
        return;
      } catch (error) {
        log.error(
          { err: error, assignment: this.id },
          'Cannot store the record of a task: the agent tries again, and neither begins the task nor reports its result before',
        );
        await wait(clock, retryStoreMs, signal);
      }
    }
  }

  async #lost(desired: TaskItem, signal: AbortSignal): Promise<WireReport> {
    await this.#work.clean?.(desired, signal).catch((error: unknown) => {
      signal.throwIfAborted();
      this.#deps.log.warn({ err: error, assignment: this.id }, 'Cannot remove what an interrupted task left');
    });
    const message = `The ${this.#row.noun} was interrupted as the agent of the server ended: it is not known whether it had an effect. Check that, then begin it again`;
    return { ...blankReport(desired), phase: 'lost', error: { code: 'interrupted', message } };
  }

  async #attemptOnce(desired: TaskItem, signal: AbortSignal): Promise<WireReport> {
    const { results, logs, clock, log } = this.#deps;
    const { noun, codes, ifInterrupted, output } = this.#row;
    // An attempt that is not on disk must not begin: after a restart of the agent it would run again.
    if (ifInterrupted === 'lost') await this.#stored(() => results.begin(this.id, desired.spec.attempt), signal);
    this.#sendReport({ ...blankReport(desired), phase: 'running', progress: { step: 'starting' } });
    const write = (stream: LogLine['stream'], text: string): void => {
      const at = clock.now().getTime();
      const entries = clean(text)
        .split('\n')
        .map((message) => ({ at, stream, level: guessLevel(message), instance: this.id, message }));
      logs.append(desired.workload_id, entries, signal).catch((error: unknown) => {
        log.warn({ err: error, assignment: this.id }, 'Cannot store the output of a task: lines of it may be missing');
      });
    };
    const seconds = desired.spec.deadline_seconds;
    let known: TaskKnown = {};
    using paced = new Paced<Progress>(clock, progressEveryMs, (at) => this.#progressed(at, signal));
    const progress: TaskProgress = {
      line: (text) => write(output, text),
      learned: (learned) => (known = learned),
      at: (at) => paced.next(at),
    };
    using limit = deadline(clock, seconds * 1000, `The ${noun}`, signal);
    try {
      const result = await this.#work.run(desired, progress, limit.signal);
      await logs.flushed(desired.workload_id);
      return { ...blankReport(desired), ...reportOf(this.#row, result), phase: 'succeeded' };
    } catch (error) {
      signal.throwIfAborted();
      const late = limit.signal.aborted;
      if (!late && !(error instanceof RuntimeFailure))
        log.error(
          { err: error, assignment: this.id },
          'A task failed by an error of the agent or its machine: its report does not have the details',
        );
      const isWaiting = error instanceof RuntimeFailure && error.code === 'runtime_unavailable';
      const failure =
        late && !isWaiting
          ? { code: codes.timeout, message: `The ${noun} did not end within ${seconds} s` }
          : failureOf(error, this.#row);
      write('system', failure.message);
      await logs.flushed(desired.workload_id);
      return { ...blankReport(desired), ...reportOf(this.#row, known), phase: 'failed', error: failure };
    }
  }

  #progressed(progress: Progress, signal: AbortSignal): void {
    if (this.#report === undefined || signal.aborted) return;
    this.#sendReport({ ...this.#report, progress });
  }

  #gone(): void {
    this.#deps.results.forget(this.id).catch((error: unknown) => {
      this.#deps.log.warn({ err: error, assignment: this.id }, 'Cannot remove the result of a task from the disk');
    });
    const generation = this.#deps.desired.tombstone(this.id)?.generation ?? this.#report?.generation ?? 0;
    this.#sendReport({ ...blankReport({ id: this.id, generation }), phase: 'stopped', gone: true });
  }

  #sendReport(report: WireReport): void {
    if (JSON.stringify(this.#report) === JSON.stringify(report)) return;
    this.#report = report;
    this.#deps.reported(report);
  }
}

function keyOf(desired: TaskItem): string {
  return `${desired.spec_hash} ${desired.spec.attempt}`;
}

function failureOf(error: unknown, { noun, codes }: TaskRow): { code: string; message: string } {
  if (error instanceof RuntimeFailure) return { code: error.code, message: error.message };
  return isDiskFull(error)
    ? {
        code: 'no_space',
        message: `The ${noun} failed, as there is no space left on the disk of the server: free some, then begin it again`,
      }
    : { code: codes.failed, message: `The ${noun} failed: the log of the agent has the cause` };
}
