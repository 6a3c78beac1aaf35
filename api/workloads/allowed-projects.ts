import type { TenantView } from '../../store/mirror.ts';
import { referred } from './references.ts';

/**
 * The projects that may use an object; `null`: all. A deleted project that was named before may stay, so that an answer
 * can be sent back. @throws ApiError NOT_FOUND for any other unknown project
 */
export function allowedFrom(
  view: TenantView,
  sent: 'all' | readonly string[] | null | undefined,
  before: readonly string[] = [],
): string[] | null | undefined {
  if (sent === undefined) return undefined;
  if (sent === null || sent === 'all') return null;
  for (const id of sent) if (!before.includes(id)) referred(view, 'project', id, 'allowed_projects');
  return [...new Set(sent)];
}
