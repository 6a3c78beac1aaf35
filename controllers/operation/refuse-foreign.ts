import { grants } from '../../store/grants.ts';
import type { ReadonlyResource } from '../../store/resource.ts';
import type { TenantView } from '../../store/mirror.ts';
import { OperationFailure } from './run.ts';

/** A project reads with no credential that it may not use any more. @throws OperationFailure */
export function refuseForeign(
  { desired }: ReadonlyResource<'application'>,
  id: string | undefined,
  { ctx }: { ctx: { readonly view: TenantView } },
): void {
  const access = id === undefined ? undefined : ctx.view.get('git_credential', id);
  if (access === undefined || grants(access, desired.project_id)) return;
  throw new OperationFailure(
    'invalid_source',
    `The git credential ${access.desired.name} is not for this project any more: ask an admin to add the project to its allowed_projects`,
  );
}
