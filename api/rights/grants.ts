import type { ReadonlyResource } from '../../store/resource.ts';
import { ApiError } from '../ground/api-error.ts';

type Server = ReadonlyResource<'server'>;

/** Whether the project may use the server. */
export function grants({ desired }: Server, projectId: string): boolean {
  return desired.allowed_projects === undefined || desired.allowed_projects.includes(projectId);
}

/** Whether any of the projects may use the server. */
export function grantsAny({ desired }: Server, projects: ReadonlySet<string>): boolean {
  if (desired.allowed_projects === undefined) return projects.size > 0;
  return desired.allowed_projects.some((id) => projects.has(id));
}

/**
 * @throws ApiError FORBIDDEN unless the project may use the server. This holds for every caller: only the server's
 *   settings decide.
 */
export function requireGrant(server: Server, projectId: string, field: string): void {
  if (grants(server, projectId)) return;
  const message =
    'The server is not for this project: ask an admin to add the project to allowed_projects of the server';
  throw new ApiError('FORBIDDEN', message, { details: [{ field, reason: 'not_granted', message }] });
}
