import type { TenantView } from '../../store/mirror.ts';
import type { ReadonlyResource } from '../../store/resource.ts';
import type { Principal } from '../auth/principal.ts';
import { forbidden } from '../ground/api-error.ts';
import { isTenantWide } from './authorize.ts';

/** Requires that the caller may change a template: its author may, and admins. @throws ApiError FORBIDDEN */
export function requireOwnTemplate(principal: Principal, { desired }: ReadonlyResource<'template'>): void {
  if (isTenantWide(principal) || desired.author_id === principal.user.meta.id) return;
  throw forbidden(
    'Not allowed: a template is changed by its author. Ask its author or an admin of the tenant, or make one of your own',
  );
}

/** Whether the caller and admins of the tenant alone may change the text of a template. */
export function hasTrustedAuthor(
  { user }: Principal,
  { desired }: ReadonlyResource<'template'>,
  view: TenantView,
): boolean {
  return desired.author_id === user.meta.id || view.get('user', desired.author_id)?.desired.role !== 'user';
}
