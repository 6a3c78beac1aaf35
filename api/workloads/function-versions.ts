import type { ReadonlyResource } from '../../store/resource.ts';
import type { RequestContext } from '../endpoint/context.ts';
import { notFound } from '../ground/api-error.ts';

/** The version of the function that the path names. @throws ApiError NOT_FOUND, also for one of another function */
export function versionIn(
  { view, params }: Pick<RequestContext, 'view' | 'params'>,
  { meta }: ReadonlyResource<'function'>,
): ReadonlyResource<'function_version'> {
  const version = view.get('function_version', params.get('versionId') ?? '');
  if (version?.desired.function_id !== meta.id) throw notFound('Function version', 'versionId');
  return version;
}
