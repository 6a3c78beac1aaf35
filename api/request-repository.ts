import type { CommittableUnit, Repository, Unit } from '../store/repo.ts';

/**
 * The repository as handlers have it: it reads, and the units that it begins have no commit. What is done to
 * them is sent by `RequestContext.commit` alone, which puts the audit record into the same transaction.
 */
export interface RequestRepository extends Pick<Repository, 'tenant' | 'get' | 'idByName'> {
  begin(): Unit;
}

/** A repository for a handler, and for its commit the way back from a unit of that repository to one that can be sent. */
export function createRequestRepository({ tenant, get, idByName, begin }: Repository): {
  repo: RequestRepository;
  committable(unit: Unit): CommittableUnit;
} {
  const begun = new Map<Unit, CommittableUnit>();
  return {
    repo: {
      tenant,
      get,
      idByName,
      begin() {
        const unit = begin();
        begun.set(unit, unit);
        return unit;
      },
    },
    committable(unit) {
      const known = begun.get(unit);
      if (known === undefined) throw new Error('Cannot commit a unit that another repository began');
      return known;
    },
  };
}
