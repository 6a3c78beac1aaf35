import type { CommittableUnit, Repository, Unit } from '../store/repo.ts';

/**
 * The repository of a handler: it reads, and its units have no commit. Only `RequestContext.commit` sends a unit, and
 * puts the audit record into the same transaction.
 */
export interface RequestRepository extends Pick<Repository, 'tenant' | 'get' | 'idByName'> {
  begin(): Unit;
}

/**
 * The repository for a handler, and the function by which `RequestContext.commit` gets the committable form of its
 * units.
 */
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
