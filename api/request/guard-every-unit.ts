import type { Repository } from '../../store/repo.ts';
import type { Guard } from '../../store/store.ts';

/**
 * The repository with a guard in each of its units: no unit commits once the guard fails. `guardOf` is called when a
 * unit begins, so that a new attempt has a new guard.
 */
export function guardEveryUnit(repo: Repository, guardOf: () => Guard): Repository {
  return {
    ...repo,
    begin() {
      const unit = repo.begin();
      unit.guard(guardOf());
      return unit;
    },
  };
}
