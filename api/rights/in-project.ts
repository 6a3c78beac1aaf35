import type { TenantView } from '../../store/mirror.ts';
import type { Principal } from '../auth/principal.ts';
import { authorize } from './authorize.ts';
import { permissions } from './permissions.ts';
import type { RouteName } from './permissions.ts';

/**
 * Judges the row of a route in another project than the one of its path, as for each object that a body names.
 * @throws ApiError FORBIDDEN unless the caller may do in that project what the route does
 */
export function requireInProject(principal: Principal, route: RouteName, view: TenantView, projectId: string): void {
  const permission = permissions.get(route);
  const project = view.get('project', projectId);
  if (permission === undefined || project === undefined)
    throw new Error(`Cannot judge ${route} in project ${projectId}`);
  authorize(principal, permission, { tenant: view, project });
}
