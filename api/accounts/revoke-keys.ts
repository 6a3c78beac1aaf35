import type { RequestContext } from '../endpoint/context.ts';
import { isStaying } from '../../store/resource.ts';

/** Keys revoked in one transaction: each takes a guard and three deletions. */
const revokedPerTransaction = 10;

/** Revokes every service key of the user, in several transactions if needed. */
export async function revokeKeys(
  { view, repo, fresh, commit }: Pick<RequestContext, 'view' | 'repo' | 'fresh' | 'commit'>,
  userId: string,
): Promise<void> {
  for (;;) {
    await fresh();
    const left = view.by('service_key', 'user', userId).filter(isStaying);
    if (left.length === 0) return;
    const unit = repo.begin();
    for (const key of left.slice(0, revokedPerTransaction)) unit.requestDelete(key);
    await commit(unit, () => undefined);
  }
}
