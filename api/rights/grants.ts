import type { Granted } from '../../store/grants.ts';
import { grants } from '../../store/grants.ts';
import type { TenantView } from '../../store/mirror.ts';
import type { Principal } from '../auth/principal.ts';
import { ApiError } from '../ground/api-error.ts';
import { visibleProjects, type Access } from './authorize.ts';

/** Those of the objects that a project of the caller may use: all for an admin of the tenant. */
export function grantedTo<T extends Granted>(
  { principal, view, access }: { principal: Principal; view: TenantView; access: Access },
  objects: readonly T[],
): readonly T[] {
  if (access.grant === 'f') return [];
  const projects = visibleProjects(principal, view);
  return projects === 'all' ? objects : objects.filter((it) => grantsAny(it, projects));
}

/** Whether any of the projects may use the object. */
function grantsAny({ desired }: Granted, projects: ReadonlySet<string>): boolean {
  if (desired.allowed_projects === undefined) return projects.size > 0;
  return desired.allowed_projects.some((id) => projects.has(id));
}

/**
 * `word`: what it is, such as `server`.
 *
 * @throws ApiError FORBIDDEN unless the project may use the object. This holds for every caller: only the settings of
 *   the object decide.
 */
export function requireGrant(it: Granted, projectId: string, field: string, word = 'server'): void {
  if (grants(it, projectId)) return;
  const message = `The ${word} is not for this project: ask an admin to add the project to allowed_projects of the ${word}`;
  throw new ApiError('FORBIDDEN', message, { details: [{ field, reason: 'not_granted', message }] });
}
