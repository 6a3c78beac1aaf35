import type { Repository } from '../../store/repo.ts';
import type { Guard } from '../../store/store.ts';

/** The repository with a guard in each of its units: no unit commits once the guard fails. */
export function guarded(repo: Repository, guard: Guard): Repository {
  return {
    ...repo,
    begin() {
      const unit = repo.begin();
      unit.guard(guard);
      return unit;
    },
  };
}
