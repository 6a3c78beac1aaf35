import type { GlobalRole } from '../../store/kinds/identity.ts';
import { forbidden } from '../ground/api-error.ts';
import type { Principal } from '../auth/principal.ts';

const rank: Readonly<Record<GlobalRole, number>> = { user: 1, admin: 2, superadmin: 3 };

/**
 * Only a superadmin gives a role at or above their own, or changes a user who has such a role.
 *
 * @throws ApiError FORBIDDEN
 */
export function requireRank({ principal }: { principal: Principal }, role: GlobalRole): void {
  const own = principal.user.desired.role;
  if (own !== 'superadmin' && rank[role] >= rank[own])
    throw forbidden(`Your role ${own} does not allow to give the role ${role}, or to change a user who has it`);
}
