import type { KindName } from '../store/kinds/kinds.ts';
import type { TenantView } from '../store/mirror.ts';
import type { ReadonlyResource } from '../store/resource.ts';
import { ApiError, conflicting, notFound } from './api-error.ts';
import { kindWords } from './subject.ts';

type Referable = KindName & keyof typeof kindWords;

/**
 * The object that a field of a body points at. It must be staying; the caller guards that it still is at the commit.
 *
 * @throws ApiError NOT_FOUND, CONFLICT if it is being deleted.
 */
export function referred<K extends Referable>(
  view: TenantView,
  kind: K,
  id: string,
  field: string,
): ReadonlyResource<K> {
  const it = view.get(kind, id);
  if (it === undefined) throw notFound(kindWords[kind], field);
  if (it.meta.deletionRequestedAt !== undefined)
    throw conflicting(`${kindWords[kind]} is being deleted`, [
      { field, reason: 'deleting', message: `${kindWords[kind]} is being deleted` },
    ]);
  return it;
}

/** An environment of that project. @throws as `referred` */
export function referredEnvironment(
  view: TenantView,
  id: string,
  project: ReadonlyResource<'project'>,
): ReadonlyResource<'environment'> {
  const it = referred(view, 'environment', id, 'environment_id');
  if (it.desired.project_id === project.meta.id) return it;
  const message = 'Environment not found in this project';
  throw new ApiError('NOT_FOUND', message, { details: [{ field: 'environment_id', reason: 'not_found', message }] });
}
