import type PQueue from 'p-queue';
import type { Logger } from 'pino';
import type { Clock } from '../../store/clock.ts';
import { committed } from '../../store/commit-failure.ts';
import { jsonEqual } from '../../store/json-equal.ts';
import { parseKey } from '../../store/keys.ts';
import type { KindName, ObservedOf } from '../../store/kinds/kinds.ts';
import type { KeyChange, Mirror, ObjectChange } from '../../store/mirror.ts';
import type { Repository } from '../../store/repo.ts';
import type { Condition, DeepReadonly, ReadonlyResource } from '../../store/resource.ts';
import type { Revision } from '../../store/revision.ts';
import type { Store } from '../../store/store.ts';
import { brokenLaws, derive, retrying, stall, type Stamp } from './conditions.ts';
import { RunContext, type ContextScope } from './context.ts';
import type { Controller, EventInput, NotificationInput, Verdict, Wake } from './controller.ts';
import { causeOf } from './failure.ts';
import { GuardedView } from './guarded-view.ts';
import type { Term } from './leader.ts';
import { limits } from './limits.ts';
import type { ControllerMetrics, Outcome } from './metrics.ts';
import { KeyedQueue, type After } from './queue.ts';
import { Waiters } from './waiters.ts';

/** What the loops of all controllers share. */
export interface LoopDeps {
  readonly store: Store;
  readonly mirror: Mirror;
  readonly clock: Clock;
  readonly random: () => number;
  readonly log: Logger;
  readonly pool: PQueue;
  readonly metrics: ControllerMetrics;
  readonly concurrency: number;
  /** A verdict that breaks a law of the status fails its run; otherwise it is logged and counted. */
  readonly strict: boolean;
  readonly repository: (tenant: string) => Repository;
  readonly event: (of: ReadonlyResource, event: EventInput) => void;
  readonly notify: (of: ReadonlyResource, key: string, notification: NotificationInput) => Promise<void>;
}

interface Run<K extends KindName> {
  key: string;
  it: ReadonlyResource<K>;
  context: RunContext;
  scope: ContextScope;
  /** Of the mirror when `it` was read. */
  since: Revision;
}

type Answer = { outcome: Outcome; after: After };

const nothing: After = { after: 'nothing' };
const failure: After = { after: 'failure' };

/**
 * One controller at work for one term: decides what runs when, and does around each run what no controller may get
 * wrong. The numbers are the order in which it happens:
 *
 * 1. Read barrier: the mirror has applied what earlier runs of the key wrote.
 * 2. Gone: its bookkeeping goes too. Deletion requested: `finalize` while the finalizer is there, nothing afterwards.
 *    The finalizer itself is on the object from its creation, by the declaration of the kind.
 * 3. `reconcile`.
 * 4. The answer is compared with what is stored: equal writes nothing, else one transaction, fenced by the term and
 *    guarded by what was read.
 * 5. Generations and times of change are stamped, the laws of the status checked.
 * 6. Changes wake: of the own kind the wish alone, never the own echo; of other kinds what `wakes` says and what the
 *    last verdict waits for.
 * 7. Every object is looked at again once in 10 min ± 20 %, unless it is stalled.
 *
 * A run that throws is its object's failure and nobody else's.
 */
export class ControllerLoop<K extends KindName> implements AsyncDisposable {
  readonly queue: KeyedQueue;
  readonly #controller: Controller<K>;
  readonly #term: Term;
  readonly #deps: LoopDeps;
  readonly #log: Logger;
  readonly #scopes = new Map<string, ContextScope>();
  readonly #waiters = new Waiters();
  /** Highest revision that a run of the key wrote and the mirror may not have applied. */
  readonly #barriers = new Map<string, Revision>();
  /** Conflicts in a row. */
  readonly #conflicts = new Map<string, number>();
  readonly #wakes: ReadonlyMap<KindName, readonly Wake<K>[]>;
  readonly #stop: (() => void)[] = [];

  constructor(controller: Controller<K>, term: Term, deps: LoopDeps) {
    this.#controller = controller;
    this.#term = term;
    this.#deps = deps;
    this.#log = deps.log.child({ controller: controller.name });
    this.#wakes = Map.groupBy(controller.wakes, (wake) => wake.kind);
    this.queue = new KeyedQueue({
      name: controller.name,
      concurrency: deps.concurrency,
      pool: deps.pool,
      clock: deps.clock,
      random: deps.random,
      log: this.#log,
      run: (key, signal) => this.#run(key, signal),
    });
  }

  /** Takes up work: what changes from now on, and, in the background, everything that is there. */
  start(): void {
    const { mirror, metrics } = this.#deps;
    this.#controller.begin?.();
    this.#stop.push(
      metrics.observe(this.queue),
      mirror.subscribe((change) => this.#onChange(change)),
      mirror.subscribeKeys((change) => this.#onKeyChange(change)),
    );
    this.resync();
  }

  /** Looks at every object, in the background. */
  resync(): void {
    const { mirror } = this.#deps;
    for (const tenant of mirror.tenants())
      for (const { meta } of mirror.tenant(tenant).list(this.#controller.kind))
        this.queue.add(keyOf(tenant, meta.id), { priority: limits.queue.backgroundPriority });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const stop of this.#stop.splice(0)) stop();
    await this.queue[Symbol.asyncDispose]();
  }

  #onChange(change: ObjectChange): void {
    const { tenant, kind, id, before, after } = change;
    const priority = change.initial ? limits.queue.backgroundPriority : 0;
    if (kind === this.#controller.kind && change.part === 'desired' && isNewWish(before, after))
      this.queue.add(keyOf(tenant, id), { priority, urgent: isUrgent(before, after) });
    for (const key of this.#waiters.changed(tenant, kind, id, change.revision)) this.queue.add(key, { priority });
    this.#wake(change, priority);
  }

  #wake({ tenant, kind, id, before, after, part }: ObjectChange, priority: number): void {
    const view = this.#deps.mirror.tenant(tenant);
    for (const wake of this.#wakes.get(kind) ?? []) {
      try {
        for (const woken of wake.ids({ ...(before && { before }), ...(after && { after }) }, view)) {
          const isOwnEcho = kind === this.#controller.kind && woken === id && part === 'observed';
          if (!isOwnEcho) this.queue.add(keyOf(tenant, woken), { priority });
        }
      } catch (error) {
        this.#log.error({ err: error, kind, id }, 'Wake failed; the resync will find the object');
      }
    }
  }

  #onKeyChange({ key, initial }: KeyChange): void {
    const meaning = parseKey(key);
    if (meaning === undefined) return;
    try {
      const woken = this.#controller.keyWakes?.(meaning);
      if (woken === undefined) return;
      this.queue.add(keyOf(woken.tenant, woken.id), { priority: initial ? limits.queue.backgroundPriority : 0 });
    } catch (error) {
      this.#log.error({ err: error, area: meaning.area }, 'Wake failed; the resync will find the object');
    }
  }

  async #run(key: string, signal: AbortSignal): Promise<After> {
    const started = this.#deps.clock.monotonic();
    const { outcome, after } = await this.#reconcile(key, signal);
    if (outcome !== 'conflict') this.#conflicts.delete(key);
    this.#deps.metrics.reconciled(this.#controller.name, outcome, this.#deps.clock.monotonic() - started);
    return after;
  }

  async #reconcile(key: string, signal: AbortSignal): Promise<Answer> {
    const { mirror } = this.#deps;
    const { tenant, id } = partsOf(key);
    let run: Run<K> | undefined;
    try {
      await this.#barrier(key, signal);
      const since = mirror.applied;
      const it = mirror.tenant(tenant).get(this.#controller.kind, id);
      if (it === undefined) return this.#forget(key, 'gone');
      const scope = this.#scope(tenant);
      run = { key, it, scope, since, context: new RunContext(scope, key, signal) };
      if (it.meta.deletionRequestedAt !== undefined) return await this.#finalize(run);
      return await this.#conclude(run, await this.#controller.reconcile(it, run.context));
    } catch (error) {
      return await this.#recover(key, run, signal, error);
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
    unit.release(it as ReadonlyResource, name); // a resource of kind K is one of some kind
    this.#wrote(key, committed(await unit.commit()));
    scope.wrote('release');
    return this.#forget(key, 'released');
  }

  #forget(key: string, outcome: Outcome): Answer {
    this.#waiters.clear(key);
    if (outcome === 'gone') this.#barriers.delete(key);
    return { outcome, after: nothing };
  }

  /** Stores what the verdict says and follows its `next`. */
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
    if (refs.length > 0 && this.#waiters.changedSince(tenant, refs, since)) this.queue.add(key);
    if ('stalled' in next) return { outcome: 'stalled', after: nothing };
    if ('again' in next) {
      // What wrote made progress and may go on at once; what did not would spin.
      const soonest = this.#barriers.has(key) || context.written !== undefined ? 0 : limits.reconcile.againMinMs;
      const ms = Math.min(Math.max(next.again, soonest), this.#resyncMs());
      return { outcome: 'again', after: { after: 'delay', ms, priority: 0 } };
    }
    return { outcome: refs.length > 0 ? 'waiting' : 'settled', after: this.#resyncLater() };
  }

  #checkLaws({ it, key }: Run<K>, { conditions, next }: Verdict<K>): void {
    const broken = brokenLaws(it.meta.generation, conditions, next);
    if (broken.length === 0) return;
    this.#deps.metrics.lawBroken(this.#controller.name);
    if (this.#deps.strict) throw new Error(`Verdict breaks laws of the status: ${broken.join('; ')}`);
    this.#log.error({ key, broken }, 'Verdict breaks laws of the status');
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

  /** What follows from whatever a run threw. */
  async #recover(key: string, run: Run<K> | undefined, signal: AbortSignal, error: unknown): Promise<Answer> {
    if (this.#term.signal.aborted) return { outcome: 'aborted', after: failure };
    const cause = causeOf(error);
    switch (cause.cause) {
      case 'conflict':
        return this.#readAgain(key);
      case 'unavailable':
        this.#log.debug({ key, err: error }, 'Store did not answer');
        return { outcome: 'unavailable', after: failure };
      case 'stalled':
        if (run !== undefined) {
          const { reason, message } = cause;
          const { generation } = run.it.meta;
          await this.#show(run, { reason, message, generation }, (old, stamp) => stall(old, reason, message, stamp));
          this.#waiters.clear(key);
        }
        return { outcome: 'stalled', after: nothing };
      case 'error': {
        const message = signal.aborted ? 'Exceeded its deadline' : cause.message;
        if (cause.expected) this.#log.info({ key, reason: cause.reason, message }, 'Reconcile failed');
        else this.#log.error({ key, err: error }, 'Reconcile failed');
        if (run !== undefined)
          await this.#show(run, { reason: cause.reason, message }, (old, stamp) => retrying(old, message, stamp));
        return { outcome: signal.aborted ? 'aborted' : 'error', after: failure };
      }
    }
  }

  /** The mirror has not applied what the conflict was with: the next run waits for it, then decides on fresh state. */
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
   * Shows a failure at the object: in its conditions, or, if nothing was observed yet, in its events. Not bound by the
   * run's deadline, which may be what is shown.
   *
   * @param failed with the generation that was dealt with; none: the one before, it is to be tried again
   */
  async #show(
    run: Run<K>,
    failed: { reason: string; message: string; generation?: number },
    conditions: (previous: readonly DeepReadonly<Condition>[], stamp: Stamp) => Condition[],
  ): Promise<void> {
    const { it, key } = run;
    const { reason, message, generation } = failed;
    if (it.observed === undefined) {
      this.#deps.event(it as ReadonlyResource, { type: 'warning', reason, message }); // a resource of some kind
      return;
    }
    try {
      const shown = conditions(it.observed.conditions, this.#stamp(it));
      const observed = it.observed as unknown as ObservedOf<K>; // the repository only reads it
      await this.#observe(run, observed, generation ?? it.observed.observedGeneration, shown);
    } catch (error) {
      this.#log.debug({ key, err: error }, 'Failure could not be shown');
    }
  }

  #resyncLater(): After {
    return { after: 'delay', ms: this.#resyncMs(), priority: limits.queue.backgroundPriority };
  }

  #resyncMs(): number {
    const { resyncMs, resyncJitter } = limits.reconcile;
    return resyncMs * (1 - resyncJitter + 2 * resyncJitter * this.#deps.random());
  }

  #scope(tenant: string): ContextScope {
    const known = this.#scopes.get(tenant);
    if (known !== undefined) return known;
    const { name, kind, reads, children } = this.#controller;
    const { mirror, clock, metrics, event, notify, repository } = this.#deps;
    const world = mirror.tenant(tenant);
    const readable = new Set<KindName>([kind, ...reads]);
    const scope: ContextScope = {
      controller: name,
      children: new Set(children),
      declared: new Set<KindName>([...readable, ...children]),
      repository: repository(tenant),
      view: new GuardedView(world, name, readable),
      world,
      reached: (revision, signal) => mirror.reached(revision, signal),
      fence: this.#term.fence,
      clock,
      log: this.#log,
      wrote: (operation) => metrics.wrote(name, operation),
      event,
      notify,
    };
    this.#scopes.set(tenant, scope);
    return scope;
  }
}

/** A change of the wish: creation, generation, request of deletion, finalizers, removal. */
function isNewWish(before: ReadonlyResource | undefined, after: ReadonlyResource | undefined): boolean {
  if (before === undefined || after === undefined) return true;
  return isUrgent(before, after) || !jsonEqual(before.meta.finalizers, after.meta.finalizers);
}

function isUrgent(before: ReadonlyResource | undefined, after: ReadonlyResource | undefined): boolean {
  return (
    before?.meta.generation !== after?.meta.generation ||
    before?.meta.deletionRequestedAt !== after?.meta.deletionRequestedAt
  );
}

function keyOf(tenant: string, id: string): string {
  return `${tenant}/${id}`;
}

function partsOf(key: string): { tenant: string; id: string } {
  const at = key.indexOf('/');
  return { tenant: key.slice(0, at), id: key.slice(at + 1) };
}
