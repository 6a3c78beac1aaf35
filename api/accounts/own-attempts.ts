import type { RequestContext } from '../endpoint/context.ts';
import { accountOf } from '../auth/login-throttle.ts';

/**
 * Runs one attempt of a logged-in user to prove the account again. Its failures are counted for the account and the
 * session, apart from those of logins: wrong guesses of strangers do not keep the owner from changing the password.
 *
 * @throws as {@link LoginThrottle.attempt}
 */
export function attemptOfOwner<T>(
  { tenant, principal, throttle }: Pick<RequestContext, 'tenant' | 'principal' | 'throttle'>,
  attempt: () => Promise<T | undefined>,
): Promise<T | undefined> {
  const { user, by } = principal;
  const proof = by.type === 'session' ? by.session.meta.id : by.key.meta.id;
  return throttle.attempt(`${accountOf(tenant, user.desired.email)} own`, proof, attempt);
}
