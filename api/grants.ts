import type { TenantView } from '../store/mirror.ts';
import type { ReadonlyResource } from '../store/resource.ts';
import { ApiError } from './api-error.ts';

type Server = ReadonlyResource<'server'>;

/** Whether the server may be used by the project. */
export function grants({ desired }: Server, projectId: string): boolean {
  return desired.allowed_projects === undefined || desired.allowed_projects.includes(projectId);
}

/** Whether the server may be used by any of the projects. */
export function grantsAny({ desired }: Server, projects: ReadonlySet<string>): boolean {
  if (desired.allowed_projects === undefined) return projects.size > 0;
  return desired.allowed_projects.some((id) => projects.has(id));
}

/** @throws ApiError FORBIDDEN for a server that is not for the project, whoever asks: its admins say for which it is. */
export function requireGrant(server: Server, projectId: string, field: string): void {
  if (grants(server, projectId)) return;
  const message =
    'The server is not for this project: ask an admin to add the project to allowed_projects of the server';
  throw new ApiError('FORBIDDEN', message, { details: [{ field, reason: 'not_granted', message }] });
}

/** The same by the id of a server, of which one that is gone is judged elsewhere. */
export function requireGrantOf(view: TenantView, serverId: string, projectId: string, field: string): void {
  const server = view.get('server', serverId);
  if (server !== undefined) requireGrant(server, projectId, field);
}
