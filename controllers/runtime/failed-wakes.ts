import type { Clock } from '../../time/clock.ts';
import { backoff } from './backoff.ts';
import { limits } from './limits.ts';

interface Options {
  clock: Clock;
  random: () => number;
  /** Queues every object of the tenant. */
  pass: (tenant: string) => void;
}

/**
 * Makes up for wakes that threw. Which objects such a wake would have named is unknown, so every object of the tenant
 * is reconciled again: a reconcile needs no reason, and one without need writes nothing.
 *
 * A pass that has not begun serves every failure until then. The passes of a tenant back off while its wakes go on
 * failing, and begin anew with the shortest delay after one interval of the resync without a failure. The number of
 * tenants bounds it.
 */
export class FailedWakes implements Disposable {
  readonly #options: Options;
  readonly #passes = new Map<string, { due: number; failures: number; cancel: (() => void) | undefined }>();

  constructor(options: Options) {
    this.#options = options;
  }

  /** Has a pass over the tenant made soon: at least one that begins after this call. */
  add(tenant: string): void {
    const { clock, random, pass } = this.#options;
    const last = this.#passes.get(tenant);
    if (last?.cancel !== undefined) return;
    const now = clock.monotonic();
    const failures = last !== undefined && now - last.due < limits.reconcile.resyncMs ? last.failures + 1 : 0;
    const delay = backoff(failures, random);
    const cancel = clock.timer(delay, () => {
      this.#passes.set(tenant, { due: now + delay, failures, cancel: undefined });
      pass(tenant);
    });
    this.#passes.set(tenant, { due: now + delay, failures, cancel });
  }

  [Symbol.dispose](): void {
    for (const { cancel } of this.#passes.values()) cancel?.();
    this.#passes.clear();
  }
}
