import type { Repository } from '../../store/repo.ts';
import type { CommittableUnit, Unit } from '../../store/unit-of-work.ts';

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
export function createRequestRepository(repository: Repository): {
  repo: RequestRepository;
  committable: (unit: Unit) => CommittableUnit;
} {
  const begun = new Map<Unit, CommittableUnit>();
  return {
    repo: {
      tenant: repository.tenant,
      get: (kind, id) => repository.get(kind, id),
      idByName: (kind, scope, name) => repository.idByName(kind, scope, name),
      begin() {
        const unit = repository.begin();
        begun.set(unit, unit);
        return unit;
      },
    },
    committable: (unit) => {
      const known = begun.get(unit);
      if (known === undefined) throw new Error('Cannot commit a unit that another repository began');
      return known;
    },
  };
}
