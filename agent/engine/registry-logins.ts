import type { RegistryAccess } from '../../agent-protocol/registry-access.ts';
import type { Clock } from '../../time/clock.ts';
import { unlessAborted } from '../../time/unless-aborted.ts';
import { RuntimeFailure, type RegistryLogin } from '../runtime/runtime.ts';

/** What images of each workload are pulled with, as the control plane last sent it. It is kept in memory alone. */
export class RegistryLogins {
  #byWorkload = new Map<string, RegistryAccess>();
  readonly #known = Promise.withResolvers<void>();

  /** `firstMs`: how long after the start of the agent a pull waits for the first message of the control plane. */
  constructor(clock: Clock, firstMs: number) {
    if (firstMs === 0) this.#known.resolve();
    else clock.timer(firstMs, () => this.#known.resolve());
  }

  /** `whole`: all others are forgotten. `null`: the workload has none any more. */
  learn(workloads: Readonly<Record<string, RegistryAccess | null>>, whole: boolean): void {
    if (whole) this.#byWorkload.clear();
    for (const [workload, access] of Object.entries(workloads))
      if (access === null) this.#byWorkload.delete(workload);
      else this.#byWorkload.set(workload, access);
    this.#known.resolve();
  }

  /**
   * The login of a workload for that registry; `undefined`: it has none for it.
   *
   * @throws RuntimeFailure `secret_unavailable` if the control plane cannot give it
   */
  async of(workload: string, registry: string, signal: AbortSignal): Promise<RegistryLogin | undefined> {
    await unlessAborted(this.#known.promise, signal);
    const access = this.#byWorkload.get(workload);
    if (access?.registry !== registry) return undefined;
    if ('failure' in access) throw new RuntimeFailure('secret_unavailable', access.failure, { retryable: true });
    return access;
  }
}
