import type { IncomingHttpHeaders } from 'node:http';
import { timingSafeEqual } from 'node:crypto';
import type { Clock } from '../../time/clock.ts';
import type { TenantView } from '../../store/mirror.ts';
import { isDeleting } from '../../store/resource.ts';
import type { ReadonlyResource } from '../../store/resource.ts';
import type { Principal, CredentialRef } from './principal.ts';
import { hashServiceKey, isServiceKeyForm } from './service-key.ts';
import type { Tokens } from './tokens.ts';

interface Dependencies {
  tokens: Tokens;
  /** May be behind for a write, whose transaction guards the session or key; otherwise it shows a logout elsewhere. */
  view: TenantView;
  clock: Clock;
}

/**
 * Returns the caller that these headers authenticate. The session or key must be valid and its user enabled, now.
 * Returns `undefined` if the credential is missing or no longer valid.
 */
export async function authenticate(headers: IncomingHttpHeaders, deps: Dependencies): Promise<Principal | undefined> {
  const { authorization } = headers;
  if (authorization !== undefined) {
    const [scheme, token, ...rest] = authorization.split(' ');
    if (scheme?.toLowerCase() !== 'bearer' || token === undefined || rest.length > 0) return undefined;
    return byToken(token, deps);
  }
  const key = headers['x-service-key'];
  return typeof key === 'string' ? byServiceKey(key, deps) : undefined;
}

export async function byToken(token: string, deps: Dependencies): Promise<Principal | undefined> {
  const claims = await deps.tokens.verify(token, deps.view.tenant);
  if (claims === undefined) return undefined;
  const session = deps.view.get('session', claims.sessionId);
  if (session === undefined || session.desired.user_id !== claims.userId) return undefined;
  return principal({ type: 'session', session }, session.desired.user_id, deps);
}

/** Returns the principal of a session or key whose id was already proven, `undefined` if it is not valid now. */
export function byProof(
  { type, id }: CredentialRef,
  deps: Pick<Dependencies, 'view' | 'clock'>,
): Principal | undefined {
  if (type === 'session') {
    const session = deps.view.get('session', id);
    return session && principal({ type, session }, session.desired.user_id, deps);
  }
  const key = deps.view.get('service_key', id);
  return key && principal({ type, key }, key.desired.user_id, deps);
}

function byServiceKey(text: string, deps: Dependencies): Principal | undefined {
  if (!isServiceKeyForm(text)) return undefined;
  const hash = hashServiceKey(text);
  const [key] = deps.view.by('service_key', 'hash', hash);
  if (key === undefined || !timingSafeEqual(Buffer.from(key.desired.hash), Buffer.from(hash))) return undefined;
  return principal({ type: 'key', key }, key.desired.user_id, deps);
}

/** Whether the session or key of a principal, and its user, are still valid in the mirror. */
export function isStillGood(it: Principal, view: TenantView, clock: Clock): boolean {
  const proof =
    it.by.type === 'session' ? view.get('session', it.by.session.meta.id) : view.get('service_key', it.by.key.meta.id);
  const user = view.get('user', it.user.meta.id);
  return proof !== undefined && user !== undefined && isLive(proof, view, clock) && isEnabled(user);
}

/** The principal with the present rights of its user and its key. */
export function asOfNow(it: Principal, view: TenantView): Principal {
  const user = view.get('user', it.user.meta.id) ?? it.user;
  const by = asProvenNow(it.by, view);
  return user === it.user && by === it.by ? it : { user, by };
}

function asProvenNow(by: Principal['by'], view: TenantView): Principal['by'] {
  if (by.type === 'session') return by; // a session has no rights of its own, and never changes
  const key = view.get('service_key', by.key.meta.id) ?? by.key;
  return key === by.key ? by : { type: 'key', key };
}

function principal(
  by: Principal['by'],
  userId: string,
  { view, clock }: Pick<Dependencies, 'view' | 'clock'>,
): Principal | undefined {
  if (!isLive(by.type === 'session' ? by.session : by.key, view, clock)) return undefined;
  const user = view.get('user', userId);
  return user !== undefined && isEnabled(user) ? { user, by } : undefined;
}

type Proof = ReadonlyResource<'session'> | ReadonlyResource<'service_key'>;

/**
 * A key is valid only while all its ancestors are. The recursion is bounded by the number of keys that a user may have.
 */
function isLive(proof: Proof, view: TenantView, clock: Clock): boolean {
  const { expires_at } = proof.desired;
  if (isDeleting(proof)) return false;
  if (expires_at !== undefined && Date.parse(expires_at) <= clock.now().getTime()) return false;
  if (!('parent_id' in proof.desired) || proof.desired.parent_id === undefined) return true;
  const parent = view.get('service_key', proof.desired.parent_id);
  return parent !== undefined && isLive(parent, view, clock);
}

function isEnabled(user: ReadonlyResource<'user'>): boolean {
  return !user.desired.disabled && !isDeleting(user);
}
