import type { Logger } from 'pino';
import { committed } from '../../store/commit-failure.ts';
import type { KindName, ObservedOf } from '../../store/kinds/kinds.ts';
import type { DeepReadonly } from '../../store/deep-readonly.ts';
import { isDeleting } from '../../store/resource.ts';
import type { Condition, ReadonlyResource } from '../../store/resource.ts';
import type { Revision } from '../../store/revision.ts';
import { brokenLaws, derive, retrying, stall, type Stamp } from './conditions.ts';
import { RunContext, type ContextScope } from './context.ts';
import type { Controller, Verdict } from './controller.ts';
import { causeOf } from './failure.ts';
import type { Term } from './leader.ts';
import { limits } from './limits.ts';
import type { LoopDeps } from './loop-deps.ts';
import type { Outcome } from './metrics.ts';
import { partsOf } from './object-key.ts';
import type { After } from './queue.ts';
import { createScopes } from './tenant-scopes.ts';
import { Since } from './since.ts';
import type { Waiters } from './waiters.ts';

interface Run<K extends KindName> {
  key: string;
  it: ReadonlyResource<K>;
  context: RunContext;
  scope: ContextScope;
  /** The mirror's applied revision when `it` was read. */
  since: Revision;
}

/** How a run ended, and what the queue does with its key afterwards. */
export type Answer = { outcome: Outcome; after: After };

const nothing: After = { after: 'nothing' };
const failure: After = { after: 'failure' };

/**
 * One run of a controller on one object, with everything around it that no controller may get wrong. In this order:
 *
 * 1. Read barrier: the mirror has applied what earlier runs of the key wrote.
 * 2. If the object is gone, its bookkeeping is deleted. If its deletion is requested, `finalize` is called while the
 *    finalizer is there, and nothing afterwards. The object has the finalizer from its creation, by its kind.
 * 3. `reconcile`.
 * 4. The laws of the status are checked; generations and times of change are stamped.
 * 5. The verdict is compared with what is stored. If it differs, it is written in one transaction, fenced by the term
 *    and guarded by what was read.
 */
export class Reconciler<K extends KindName> {
  readonly #controller: Controller<K>;
  readonly #term: Term;
  readonly #deps: LoopDeps;
  readonly #waiters: Waiters;
  readonly #again: (key: string) => void;
  readonly #scopeOf: (tenant: string) => ContextScope;
  /** Highest revision that a run of the key wrote and the mirror may not have applied. */
  readonly #barriers = new Map<string, Revision>();
  /** Conflicts in a row. */
  readonly #conflicts = new Map<string, number>();
  readonly #since: Since;

  /** @param again is called for a key whose object changed while it ran */
  constructor(
    controller: Controller<K>,
    term: Term,
    deps: LoopDeps,
    { waiters, again }: { waiters: Waiters; again: (key: string) => void },
  ) {
    this.#controller = controller;
    this.#term = term;
    this.#deps = deps;
    this.#waiters = waiters;
    this.#again = again;
    this.#since = new Since(deps.clock);
    this.#scopeOf = createScopes(controller, term, deps, this.#since);
  }

  /**
   * Reconciles an object and returns how that ended. It never throws: an error is a failure of that object alone.
   *
   * @param log of this run, with its key
   */
  async reconcile(key: string, signal: AbortSignal, log: Logger): Promise<Answer> {
    const answer = await this.#attempt(key, signal, log);
    if (answer.outcome !== 'conflict') this.#conflicts.delete(key);
    return answer;
  }

  async #attempt(key: string, signal: AbortSignal, log: Logger): Promise<Answer> {
    const { mirror } = this.#deps;
    const { tenant, id } = partsOf(key);
    let run: Run<K> | undefined;
    try {
      await this.#barrier(key, signal);
      const since = mirror.applied;
      const it = mirror.tenant(tenant).get(this.#controller.kind, id);
      if (it === undefined) return this.#forget(key, 'gone');
      const scope = this.#scopeOf(tenant);
      run = { key, it, scope, since, context: new RunContext(scope, key, signal, log) };
      if (isDeleting(it)) return await this.#finalize(run);
      return await this.#conclude(run, await this.#controller.reconcile(it, run.context));
    } catch (error) {
      return await this.#recover(key, run, { signal, log, error });
    } finally {
      if (run?.context.written !== undefined) this.#wrote(key, run.context.written);
    }
  }

  async #barrier(key: string, signal: AbortSignal): Promise<void> {
    const written = this.#barriers.get(key);
    if (written === undefined) return;
    if (this.#deps.mirror.applied < written) await this.#deps.mirror.reached(written, signal);
    this.#barriers.delete(key);
  }

  #wrote(key: string, revision: Revision): void {
    const known = this.#barriers.get(key);
    if (known === undefined || known < revision) this.#barriers.set(key, revision);
  }

  async #finalize(run: Run<K>): Promise<Answer> {
    const { name } = this.#controller;
    const { it, scope, key, context } = run;
    if (!it.meta.finalizers.includes(name)) return this.#forget(key, 'gone');
    if (this.#controller.finalize !== undefined) {
      const { released, ...verdict } = await this.#controller.finalize(it, context);
      if (!released) return this.#conclude(run, verdict);
    }
    context.signal.throwIfAborted();
    const unit = scope.repository.begin();
    unit.guard(scope.fence);
    unit.release(it, name);
    this.#wrote(key, committed(await unit.commit()));
    scope.wrote('release');
    return this.#forget(key, 'released');
  }

  #forget(key: string, outcome: Outcome): Answer {
    this.#waiters.clear(key);
    this.#since.forget(key);
    if (outcome === 'gone') this.#barriers.delete(key);
    return { outcome, after: nothing };
  }

  /** Stores what the verdict holds and follows its `next`. */
  async #conclude(run: Run<K>, { observed, conditions, next }: Verdict<K>): Promise<Answer> {
    const { it, key, scope, since, context } = run;
    this.#checkLaws(run, { observed, conditions, next });
    const stamp = this.#stamp(it);
    const derived = derive(it.observed?.conditions ?? [], conditions, next, stamp);
    context.signal.throwIfAborted();
    await this.#observe(run, observed, stamp.generation, derived);
    const refs = 'waitingFor' in next ? next.waitingFor : [];
    const tenant = scope.view.tenant;
    this.#waiters.set(key, tenant, refs);
    if (refs.length > 0 && this.#waiters.changedSince(tenant, refs, since)) this.#again(key);
    if ('stalled' in next) return { outcome: 'stalled', after: nothing };
    if ('again' in next) {
      // A run that wrote made progress and may go on at once; one that wrote nothing would spin.
      const soonest = this.#barriers.has(key) || context.written !== undefined ? 0 : limits.reconcile.againMinMs;
      const ms = Math.min(Math.max(next.again, soonest), this.#resyncMs());
      return { outcome: 'again', after: { after: 'delay', ms, priority: 0 } };
    }
    return { outcome: refs.length > 0 ? 'waiting' : 'settled', after: this.#resyncLater() };
  }

  #checkLaws({ it, context }: Run<K>, { conditions, next }: Verdict<K>): void {
    const broken = brokenLaws(it.meta.generation, conditions, next);
    if (broken.length === 0) return;
    this.#deps.metrics.lawBroken(this.#controller.name);
    if (this.#deps.strict) throw new Error(`Verdict breaks laws of the status: ${broken.join('; ')}`);
    context.log.error({ broken }, 'A verdict breaks laws of the status, which is a bug');
  }

  #stamp(it: ReadonlyResource<K>): Stamp {
    return { generation: it.meta.generation, now: this.#deps.clock.now() };
  }

  async #observe(
    { it, key, scope }: Run<K>,
    observed: ObservedOf<K>,
    observedGeneration: number,
    conditions: Condition[],
  ): Promise<void> {
    const stored = await scope.repository.observe(it, { ...observed, observedGeneration, conditions }, [scope.fence]);
    if (!stored.written) return;
    this.#wrote(key, stored.revision);
    scope.wrote('observe');
  }

  /** Handles an error that a run threw. */
  async #recover(
    key: string,
    run: Run<K> | undefined,
    { signal, log, error }: { signal: AbortSignal; log: Logger; error: unknown },
  ): Promise<Answer> {
    if (this.#term.signal.aborted) return { outcome: 'aborted', after: failure };
    const cause = causeOf(error);
    switch (cause.cause) {
      case 'conflict':
        return this.#readAgain(key);
      case 'unavailable':
        log.debug({ err: error }, 'Store did not answer');
        return { outcome: 'unavailable', after: failure };
      case 'stalled':
        if (run !== undefined) {
          const { reason, message } = cause;
          const { generation } = run.it.meta;
          const failed = { reason, message, generation };
          const isShown = await this.#show(run, failed, (old, stamp) => stall(old, reason, message, stamp));
          if (!isShown) return { outcome: 'stalled', after: failure };
          this.#waiters.clear(key);
        }
        return { outcome: 'stalled', after: cause.mayPass ? this.#resyncLater() : nothing };
      case 'error': {
        const message = signal.aborted ? 'Exceeded its deadline' : cause.message;
        if (cause.expected) log.info({ reason: cause.reason, message }, 'Reconcile failed');
        else log.error({ err: error }, 'Reconcile failed');
        if (run !== undefined)
          await this.#show(run, { reason: cause.reason, message }, (old, stamp) => retrying(old, message, stamp));
        return { outcome: signal.aborted ? 'aborted' : 'error', after: failure };
      }
    }
  }

  /** The mirror has not applied the write that conflicted: the next run waits for it, then decides on fresh state. */
  async #readAgain(key: string): Promise<Answer> {
    const conflicts = (this.#conflicts.get(key) ?? 0) + 1;
    this.#conflicts.set(key, conflicts);
    if (conflicts > limits.reconcile.conflictsAtOnce) return { outcome: 'conflict', after: failure };
    try {
      this.#wrote(key, await this.#deps.store.revision());
    } catch {
      return { outcome: 'unavailable', after: failure };
    }
    return { outcome: 'conflict', after: { after: 'delay', ms: 0, priority: 0 } };
  }

  /**
   * Shows a failure on the object: in its conditions or, if nothing was observed yet, in its events. Not bound by the
   * run's deadline, since the failure may be that deadline.
   *
   * @param failed with the generation that was handled; without one the stored one stays, as the run is retried
   * @returns false if its conditions could not be stored
   */
  async #show(
    run: Run<K>,
    failed: { reason: string; message: string; generation?: number },
    conditions: (previous: readonly DeepReadonly<Condition>[], stamp: Stamp) => Condition[],
  ): Promise<boolean> {
    const { it, context } = run;
    const { reason, message, generation } = failed;
    if (it.observed === undefined) {
      this.#deps.event(it, { type: 'warning', reason, message });
      return true;
    }
    try {
      const shown = conditions(it.observed.conditions, this.#stamp(it));
      const observed = it.observed as unknown as ObservedOf<K>; // the repository only reads it
      await this.#observe(run, observed, generation ?? it.observed.observedGeneration, shown);
      return true;
    } catch (error) {
      context.log.debug({ err: error }, 'Failure could not be shown');
      return false;
    }
  }

  #resyncLater(): After {
    return { after: 'delay', ms: this.#resyncMs(), priority: limits.queue.backgroundPriority };
  }

  #resyncMs(): number {
    const { resyncMs, resyncJitter } = limits.reconcile;
    return resyncMs * (1 - resyncJitter + 2 * resyncJitter * this.#deps.random());
  }
}
