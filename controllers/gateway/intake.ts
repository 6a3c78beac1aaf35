import type { WireReport } from '../../agent-protocol/assignment.ts';
import type { Rejection } from '../../agent-protocol/control-session.ts';
import type { Clock } from '../../time/clock.ts';
import { isConflict, isUnavailable } from '../../store/errors.ts';
import type { Mirror, TenantView } from '../../store/mirror.ts';
import type { Repository } from '../../store/repo.ts';
import { isDeleting } from '../../store/resource.ts';
import type { ReadonlyResource } from '../../store/resource.ts';
import { revision } from '../../store/revision.ts';
import type { Guard } from '../../store/store.ts';
import { caughtUp } from './caught-up.ts';
import { limits } from './limits.ts';
import { observedOf } from './observed.ts';

type Assignment = ReadonlyResource<'assignment'>;
type Why = Rejection['why'];

export interface IntakeOptions {
  server: string;
  repo: Repository;
  view: Pick<TenantView, 'get'>;
  mirror: Pick<Mirror, 'reached'>;
  clock: Clock;
  /** The guard of the session's live key; `undefined` while it has none: then nothing can be stored. */
  fence: () => Guard | undefined;
  /** Called when a report is stored; `it` is the assignment as it was before. */
  stored: (it: Assignment, report: WireReport) => void;
  /** Called when the fence failed: the server has another session. */
  fenced: () => void;
}

/**
 * Stores the reports of one agent: observed records, and the release of assignments that are gone, in transactions
 * fenced by the session's epoch. An agent can only write about its own assignments, at a generation that exists and is
 * not behind the stored one. Handles one report at a time.
 */
export class Intake {
  #options: IntakeOptions;
  /** Highest revision that the session wrote: reads must include it. */
  #written = revision(0);

  constructor(options: IntakeOptions) {
    this.#options = options;
  }

  /** Stores reports. @returns those that were not stored, and why. */
  async take(items: readonly WireReport[]): Promise<Rejection[]> {
    if (!(await caughtUp(this.#options, this.#written))) return items.map(({ id }) => ({ id, why: 'unavailable' }));
    const rejected: Rejection[] = [];
    const accepted: { it: Assignment; report: WireReport }[] = [];
    for (const report of items) {
      const it = this.#options.view.get('assignment', report.id);
      const why = this.#refusal(it, report);
      if (it === undefined || why !== undefined) rejected.push({ id: report.id, why: why ?? 'not_assigned' });
      else accepted.push({ it, report });
    }
    for (let at = 0; at < accepted.length; at += limits.intake.perTransaction) {
      const batch = accepted.slice(at, at + limits.intake.perTransaction);
      rejected.push(...(await this.#storeAll(batch)));
    }
    return rejected;
  }

  #refusal(it: Assignment | undefined, report: WireReport): Why | undefined {
    if (it === undefined || it.desired.server_id !== this.#options.server) return 'not_assigned';
    if (isRelease(it, report)) return undefined;
    const known = it.observed?.observedGeneration ?? 0;
    const isStale = report.generation > it.meta.generation || report.generation < known;
    return isStale ? 'stale_generation' : undefined;
  }

  async #storeAll(batch: readonly { it: Assignment; report: WireReport }[]): Promise<Rejection[]> {
    if ((await this.#store(batch)) === 'stored') return [];
    const rejected: Rejection[] = [];
    for (const { report } of batch) {
      const why = await this.#storeOne(report);
      if (why !== undefined) rejected.push({ id: report.id, why });
    }
    return rejected;
  }

  /** Stores one report after its batch failed, with the assignment as the store has it now. */
  async #storeOne(report: WireReport): Promise<Why | undefined> {
    for (let attempt = 0; attempt < limits.intake.attempts; attempt++) {
      let it: Assignment | undefined;
      try {
        it = (await this.#options.repo.get('assignment', report.id)) as Assignment | undefined; // a fresh object is read only here
      } catch (error) {
        if (isUnavailable(error)) return 'unavailable';
        throw error;
      }
      const why = this.#refusal(it, report);
      if (it === undefined || why !== undefined) return why;
      const outcome = await this.#store([{ it, report }]);
      if (outcome === 'stored') return undefined;
      if (outcome === 'unavailable') return 'unavailable';
    }
    return 'unavailable';
  }

  async #store(
    batch: readonly { it: Assignment; report: WireReport }[],
  ): Promise<'stored' | 'conflict' | 'unavailable'> {
    const fence = this.#options.fence();
    if (fence === undefined) return 'unavailable';
    const unit = this.#options.repo.begin();
    const now = this.#options.clock.now();
    unit.guard(fence);
    for (const { it, report } of batch) {
      const observed = observedOf(it, report, now);
      if (isRelease(it, report)) unit.release(it, 'agent');
      else if (observed !== undefined) unit.observe(it, observed);
    }
    try {
      const result = await unit.commit();
      if (!result.committed) {
        if (result.failed.some(({ guard }) => guard.key === fence.key)) {
          this.#options.fenced();
          return 'unavailable';
        }
        return 'conflict';
      }
      if (result.revision > this.#written) this.#written = result.revision;
    } catch (error) {
      if (isConflict(error)) return 'conflict';
      if (isUnavailable(error)) return 'unavailable';
      throw error;
    }
    for (const { it, report } of batch) this.#options.stored(it, report);
    return 'stored';
  }
}

function isRelease(it: Assignment, report: WireReport): boolean {
  return report.gone === true && isDeleting(it);
}
