import type { ReadonlyResource } from '../../store/resource.ts';
import type { ApiError } from '../ground/api-error.ts';
import type { Call } from './call.ts';
import type { Services } from '../endpoint/context.ts';
import { routeName } from '../endpoint/endpoint.ts';
import type { ResourceKind } from '../resources/resources.ts';
import { isPublic } from '../rights/permissions.ts';
import { projectIdOf } from '../endpoint/subject.ts';
import { mention } from '../audit/audit-log.ts';
import type { Asked } from '../audit/audit-log.ts';

/**
 * Records a caller who was refused, a failed login, and a logged-in caller who gave a wrong secret as proof. A request
 * without any credential is not recorded, except for a failed login.
 */
export async function recordDenial({ audit }: Services, call: Call, { code, details }: ApiError): Promise<void> {
  const { caller } = call;
  if (code === 'FORBIDDEN' && caller !== undefined) {
    const it = subjectOf(call);
    const projectId = it && projectIdOf(it);
    await audit.deny(
      { ...askedBy(call), ...(projectId !== undefined && { projectId }) },
      'refused',
      it === undefined ? [] : [mention(it)],
    );
  } else if (code === 'BAD_REQUEST' && details.some(({ reason }) => reason === 'wrong')) {
    await audit.deny(askedBy(call), 'failed', []);
  } else if (code === 'UNAUTHORIZED' && isPublic(call.route.permission)) {
    // the first half of a login: the client continues with the second factor
    if (details.some(({ reason }) => reason === 'totp_required')) return;
    const user = await accountOf(call);
    await audit.deny(askedBy(call), 'failed', user === undefined ? [] : [mention(user)]);
  }
}

/** The object that the path names, if it exists. */
function subjectOf({ route: { endpoint }, params, view }: Call): ReadonlyResource<ResourceKind> | undefined {
  const { on } = endpoint;
  return on && view.get(on[0], params.get(on[1])?.toLowerCase() ?? '');
}

/**
 * The account whose login failed. An address that is no account is not recorded: the user may have typed the password.
 */
async function accountOf({ body, repo, view }: Call): Promise<ReadonlyResource | undefined> {
  if (typeof body !== 'object' || body === null || !('email' in body) || typeof body.email !== 'string')
    return undefined;
  const id = await repo.idByName('user', 'all', body.email.trim()).catch(() => undefined);
  return id === undefined ? undefined : view.get('user', id);
}

/** The request and its caller, as the audit log names them. */
export function askedBy({ tenant, view, route, request, caller }: Call): Asked {
  return { tenant, view, route: routeName(route.endpoint), request, caller };
}
