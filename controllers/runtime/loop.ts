import PQueue from 'p-queue';
import type { Logger } from 'pino';
import { jsonEqual } from '../../store/json-equal.ts';
import { parseKey } from '../../store/keys.ts';
import type { KindName } from '../../store/kinds/kinds.ts';
import type { KeyChange, ObjectChange } from '../../store/mirror.ts';
import type { ReadonlyResource } from '../../store/resource.ts';
import type { Controller, Wake } from './controller.ts';
import { FailedWakes } from './failed-wakes.ts';
import type { Term } from './leader.ts';
import { limits } from './limits.ts';
import type { LoopDeps } from './loop-deps.ts';
import { keyOf, partsOf } from './object-key.ts';
import { KeyedQueue, type After } from './queue.ts';
import { Reconciler } from './reconciler.ts';
import { Waiters } from './waiters.ts';

/**
 * The loop of one controller for one term: decides which object is reconciled when.
 *
 * 1. Changes wake. Of its own kind only a change of the desired state does, so that the controller's own observed state
 *    does not wake it. Of other kinds `wakes` decides, and what the last verdict waits for. If a wake throws, every
 *    object of its tenant is reconciled soon, in the background.
 * 2. Every object is looked at again once in 10 min ± 20 %, unless it is stalled.
 * 3. The reconciler does the run; a run that throws is a failure of its object alone. Every log line of a run holds its
 *    `reconcile_id`: of one term and controller, each run has another.
 */
export class ControllerLoop<K extends KindName> implements AsyncDisposable {
  readonly queue: KeyedQueue;
  readonly #controller: Controller<K>;
  readonly #deps: LoopDeps;
  readonly #log: Logger;
  readonly #reconciler: Reconciler<K>;
  readonly #waiters = new Waiters();
  readonly #failedWakes: FailedWakes;
  readonly #wakes: ReadonlyMap<KindName, readonly Wake[]>;
  readonly #stop: (() => void)[] = [];

  constructor(controller: Controller<K>, term: Term, deps: LoopDeps) {
    this.#controller = controller;
    this.#deps = deps;
    this.#log = deps.log.child({ controller: controller.name });
    this.#failedWakes = new FailedWakes({
      clock: deps.clock,
      random: deps.random,
      pass: (tenant) => this.#pass(tenant),
    });
    this.#wakes = Map.groupBy(controller.wakes, (wake) => wake.kind);
    this.#reconciler = new Reconciler(controller, term, deps, {
      waiters: this.#waiters,
      again: (key) => this.queue.add(key),
    });
    const concurrency = controller.concurrency ?? deps.concurrency;
    this.queue = new KeyedQueue({
      name: controller.name,
      concurrency,
      pool: controller.shareOf === undefined ? deps.pool : new PQueue({ concurrency }),
      pathOf: controller.shareOf && ((key) => this.#pathOf(key)),
      clock: deps.clock,
      random: deps.random,
      log: this.#log,
      run: (key, signal, id) => this.#run(key, signal, id),
      onPaced: () => deps.metrics.paced(controller.name),
    });
  }

  /** Begins: with all changes from now on and, in the background, with every existing object. */
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

  /** Queues every object, in the background. */
  resync(): void {
    for (const tenant of this.#deps.mirror.tenants()) this.#pass(tenant);
  }

  #pass(tenant: string): void {
    for (const { meta } of this.#deps.mirror.tenant(tenant).list(this.#controller.kind))
      this.queue.add(keyOf(tenant, meta.id), { priority: limits.queue.backgroundPriority });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const stop of this.#stop.splice(0)) stop();
    this.#failedWakes[Symbol.dispose]();
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

  #wake({ tenant, kind, id, before, after }: ObjectChange, priority: number): void {
    const view = this.#deps.mirror.tenant(tenant);
    for (const wake of this.#wakes.get(kind) ?? []) {
      try {
        for (const woken of wake.ids({ ...(before && { before }), ...(after && { after }) }, view))
          this.queue.add(keyOf(tenant, woken), { priority });
      } catch (error) {
        this.#makeUp(error, [tenant], { kind, id });
      }
    }
  }

  /** Reports a wake that threw, and has every object of the tenants reconciled that it may have meant. */
  #makeUp(error: unknown, tenants: readonly string[], changed: object): void {
    this.#deps.metrics.wakeFailed(this.#controller.name);
    this.#log.error({ err: error, ...changed }, 'Wake failed; every object that it may have meant is reconciled');
    for (const tenant of tenants) this.#failedWakes.add(tenant);
  }

  #onKeyChange({ key, initial }: KeyChange): void {
    const meaning = parseKey(key);
    if (meaning === undefined) return;
    try {
      const woken = this.#controller.keyWakes?.(meaning);
      if (woken === undefined) return;
      this.queue.add(keyOf(woken.tenant, woken.id), { priority: initial ? limits.queue.backgroundPriority : 0 });
    } catch (error) {
      const tenants = 'tenant' in meaning ? [meaning.tenant] : this.#deps.mirror.tenants();
      this.#makeUp(error, tenants, { area: meaning.area });
    }
  }

  #pathOf(key: string): readonly string[] {
    const { tenant, id } = partsOf(key);
    const it = this.#deps.mirror.tenant(tenant).get(this.#controller.kind, id);
    const share = it && this.#controller.shareOf?.(it);
    return share === undefined ? [tenant] : [tenant, keyOf(tenant, share)];
  }

  async #run(key: string, signal: AbortSignal, id: number): Promise<After> {
    const { clock, metrics } = this.#deps;
    const log = this.#log.child({ key, reconcile_id: id });
    const started = clock.monotonic();
    const { outcome, after } = await this.#reconciler.reconcile(key, signal, log);
    const ms = clock.monotonic() - started;
    metrics.reconciled(this.#controller.name, outcome, ms);
    log.debug({ outcome, ms: Math.round(ms) }, 'Reconciled');
    return after;
  }
}

/** Whether the desired state changed: creation, generation, request of deletion, finalizers, removal. */
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
