import { randomUUID } from 'node:crypto';
import type { Logger } from 'pino';
import type { Execution } from '../../agent-protocol/functions.ts';
import type { Clock } from '../../time/clock.ts';
import type { Call } from './call.ts';
import { CallFault } from './call-fault.ts';
import type { Forward } from './forward.ts';
import { mostWaitMs, Pool } from './pool.ts';
import type { Ending, Grant, PoolSettings } from './pool.ts';

export interface ActivatorDeps {
  clock: Clock;
  log: Logger;
  /** Called when an execution begins, and again when it has ended. */
  record: (execution: Execution) => void;
  /** The last lines that its instances wrote. */
  lastLines: () => readonly string[];
  /** Called when {@link Activator.failure} may have changed. */
  changed: () => void;
  forward: Forward;
}

/** Time that calls under way have when a function is stopped. */
const graceMs = 10_000;
/** Time in which it is waited for why an instance went away. */
const reasonMs = 1_000;
const previewChars = 2000;
/** Calls of callers that are refused as too many wait are recorded at most so often: they would push all others out. */
const refusalEveryMs = 1_000;
/** Time in which the engine hands on what an instance wrote about its failure. */
export const lastWordsMs = 250;

/** Takes the calls of one function, finds or starts an instance for each, and records what became of it. */
export class Activator {
  readonly #deps: ActivatorDeps;
  #pool: Pool | undefined;
  /** When a refusal was recorded last. */
  #refusedAt = Number.NEGATIVE_INFINITY;
  /** Of earlier versions, whose calls are not all answered. */
  readonly #former = new Set<Pool>();

  constructor(deps: ActivatorDeps) {
    this.#deps = deps;
  }

  /**
   * From now on calls are answered by this version; those under way go on with the one before. That one answers until an
   * instance of the new one does. @throws why none does: the one before stays. `isWarm`: an instance must answer also where
   * there is none before.
   */
  async become(settings: PoolSettings, signal: AbortSignal, { isWarm = false } = {}): Promise<void> {
    const before = this.#pool;
    const pool = new Pool(settings, this.#deps);
    if (before !== undefined || isWarm) await pool.warm(signal);
    this.#pool = pool;
    if (before !== undefined) {
      this.#former.add(before);
      pool.succeed(before);
      void before.close(before.settings.timeoutMs).then(() => this.#former.delete(before));
    }
    pool.open();
  }

  /** Why no instance of the present version starts; `undefined`: they start, as far as is known. */
  get failure(): Error | undefined {
    return this.#pool?.failure;
  }

  /** Instances of all versions, with those that come and go. */
  get size(): number {
    return [...this.#former].reduce((sum, pool) => sum + pool.size, this.#pool?.size ?? 0);
  }

  /**
   * Answers a call and resolves with the record of it. A handler that is late cannot be trusted to stop: its instance gets no
   * further call, unless it is the caller who does not send the request or take the answer. @throws CallFault where there is no answer, which is recorded, too
   */
  async call(call: Call, signal: AbortSignal): Promise<Execution> {
    const { clock, record } = this.#deps;
    const begun = clock.monotonic();
    const execution: Execution = {
      id: randomUUID(),
      version_id: this.#pool?.settings.version ?? '',
      trigger: call.trigger,
      status: 'running',
      ...(call.scheduledAt !== undefined && { scheduled_at: call.scheduledAt }),
      started_at: clock.now().toISOString(),
      cold_start: false,
      method: call.method,
      path: call.path.split('?', 1).join('').slice(0, 1024), // a query may have secrets
    };
    const length = (): number => Math.max(0, Math.round(clock.monotonic() - begun));
    const end = (more: Partial<Execution> & Pick<Execution, 'status'>): Execution => {
      const preview = this.#deps.lastLines().join('\n').slice(-previewChars);
      const ended: Execution = {
        ...execution,
        finished_at: clock.now().toISOString(),
        duration_ms: length(),
        ...more,
        ...(preview !== '' && { log_preview: preview }),
      };
      // each instant of a schedule has its record
      if (ended.error?.code !== 'queue_full' || call.trigger === 'cron' || this.#isRefusalDue()) record(ended);
      return ended;
    };
    try {
      const pool = this.#pool;
      if (pool === undefined)
        throw new CallFault('not_running', 'The function does not run on its server: start it', { retryAfter: 5 });
      // a call by the schedule has until its task ends, which aborts the signal
      const grant = await pool.acquire(signal, call.trigger === 'cron' ? undefined : mostWaitMs);
      execution.version_id = grant.pool.settings.version;
      execution.cold_start = grant.coldMs !== undefined;
      if (grant.coldMs !== undefined) execution.cold_start_ms = grant.coldMs;
      record(execution);
      const status = await this.#answered(grant, call, execution, signal);
      if (status < 500) return end({ status: 'succeeded', status_code: status });
      const message = `The function answered ${status}: its log has the reason`;
      const ended = { finished_at: clock.now().toISOString(), duration_ms: length() };
      await new Promise<void>((resolve) => void clock.timer(lastWordsMs, resolve));
      return end({ status: 'failed', status_code: status, error: { code: 'answered', message }, ...ended });
    } catch (error) {
      const fault = faultOf(error);
      const { code, message } = fault;
      fault.execution = end({
        status: code === 'timed_out' ? 'timed_out' : 'failed',
        error: { code, message: message.slice(0, 1000) },
      });
      throw fault;
    }
  }

  /** Refuses calls, ends all instances, and resolves when they are gone. */
  async close(): Promise<void> {
    const all = [...this.#former, ...(this.#pool === undefined ? [] : [this.#pool])];
    this.#pool = undefined;
    this.#former.clear();
    await Promise.all(all.map((pool) => pool.close(graceMs)));
  }

  /** The agent is stopping: instances run on, and calls end. */
  abandon(): void {
    for (const pool of [...this.#former, ...(this.#pool === undefined ? [] : [this.#pool])]) pool.abandon();
    this.#pool = undefined;
  }

  #isRefusalDue(): boolean {
    const now = this.#deps.clock.monotonic();
    if (now - this.#refusedAt < refusalEveryMs) return false;
    this.#refusedAt = now;
    return true;
  }

  /** Resolves with the status of the answer. @throws CallFault */
  async #answered({ slot, pool }: Grant, call: Call, { id }: Execution, signal: AbortSignal): Promise<number> {
    const { timeoutMs } = pool.settings;
    const late = new AbortController();
    const cancel = this.#deps.clock.timer(timeoutMs, () =>
      late.abort(
        new CallFault('timed_out', `The function did not answer within ${timeoutMs / 1000} s: raise timeout_seconds`),
      ),
    );
    try {
      return await this.#deps.forward(slot, call, id, AbortSignal.any([signal, late.signal]));
    } catch (error) {
      if (late.signal.aborted) {
        if (!(error instanceof CallFault && error.isOfCaller)) pool.retire(slot);
        if (error instanceof CallFault && error.code === 'not_sent') throw error;
        throw late.signal.reason as CallFault; // it is aborted with one
      }
      if (signal.aborted) throw new CallFault('client_gone', 'Who called went away', { cause: error });
      if (error instanceof CallFault) throw error;
      throw await this.#endOf(slot.launched.ended, error);
    } finally {
      cancel();
      pool.release(slot);
    }
  }

  /** Why an instance broke a call off. */
  async #endOf(ended: Promise<Ending>, cause: unknown): Promise<CallFault> {
    const unknown = Promise.withResolvers<undefined>();
    const cancel = this.#deps.clock.timer(reasonMs, () => unknown.resolve(undefined));
    const end = await Promise.race([ended, unknown.promise]);
    cancel();
    if (end?.outOfMemory === true)
      return new CallFault('out_of_memory', 'The function used more memory than its limit: raise memory_limit', {
        cause,
      });
    const message =
      end === undefined
        ? 'The function broke off its answer: its log may have the reason'
        : 'The process of the function ended before it answered: its log has the reason';
    return new CallFault('instance_ended', message, { cause });
  }
}

function faultOf(error: unknown): CallFault {
  if (error instanceof CallFault) return error;
  return new CallFault('instance_ended', 'The function did not answer', { cause: error });
}
