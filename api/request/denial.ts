import type { ReadonlyResource } from '../../store/resource.ts';
import type { ApiError } from '../ground/api-error.ts';
import type { RoutedRequest } from './routed-request.ts';
import type { Services } from '../endpoint/context.ts';
import { routeName } from '../endpoint/endpoint.ts';
import type { ResourceKind } from '../resources/resources.ts';
import { isPublic } from '../rights/permissions.ts';
import { projectIdOf } from '../endpoint/subject.ts';
import { mention } from '../../store/audit/mention.ts';
import type { Asked } from '../audit/audit-log.ts';

/**
 * Records a caller who was refused, a failed login, and a logged-in caller who gave a wrong secret as proof. A request
 * without any credential is not recorded, except for a failed login.
 */
export async function recordDenial(
  { audit }: Services,
  routed: RoutedRequest,
  { code, details }: ApiError,
): Promise<void> {
  const { caller } = routed;
  if (code === 'FORBIDDEN' && caller !== undefined) {
    const it = subjectOf(routed);
    const projectId = it && projectIdOf(it);
    await audit.deny(
      { ...askedBy(routed), ...(projectId !== undefined && { projectId }) },
      'refused',
      it === undefined ? [] : [mention(it)],
    );
  } else if (code === 'BAD_REQUEST' && details.some(({ reason }) => reason === 'wrong')) {
    await audit.deny(askedBy(routed), 'failed', []);
  } else if (code === 'UNAUTHORIZED' && isPublic(routed.route.permission)) {
    // the first half of a login: the client continues with the second factor
    if (details.some(({ reason }) => reason === 'totp_required')) return;
    const user = await accountOf(routed);
    await audit.deny(askedBy(routed), 'failed', user === undefined ? [] : [mention(user)]);
  }
}

/** The object that the path names, if it exists. */
function subjectOf({ route: { endpoint }, params, view }: RoutedRequest): ReadonlyResource<ResourceKind> | undefined {
  const { on } = endpoint;
  return on && view.get(on[0], params.get(on[1])?.toLowerCase() ?? '');
}

/**
 * The account whose login failed. An address that is no account is not recorded: the user may have typed the password.
 */
async function accountOf({ body, repo, view }: RoutedRequest): Promise<ReadonlyResource | undefined> {
  if (typeof body !== 'object' || body === null || !('email' in body) || typeof body.email !== 'string')
    return undefined;
  const id = await repo.idByName('user', 'all', body.email.trim()).catch(() => undefined);
  return id === undefined ? undefined : view.get('user', id);
}

/** The request and its caller, as the audit log names them. */
export function askedBy({ tenant, view, route, request, caller }: RoutedRequest): Asked {
  return { tenant, view, route: routeName(route.endpoint), request, caller };
}
