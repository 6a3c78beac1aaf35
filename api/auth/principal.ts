import type { ReadonlyResource } from '../../store/resource.ts';

/**
 * The caller and its credential: a session or a service key. It never contains rights: they are read at each request.
 */
export interface Principal {
  user: ReadonlyResource<'user'>;
  by: { type: 'session'; session: ReadonlyResource<'session'> } | { type: 'key'; key: ReadonlyResource<'service_key'> };
}

/** The service key of a principal, if it used one. */
export function keyOf(principal: Principal): ReadonlyResource<'service_key'> | undefined {
  return principal.by.type === 'key' ? principal.by.key : undefined;
}

/** Names the session or the key by which a principal was let in. It is no secret. */
export interface CredentialRef {
  type: 'session' | 'key';
  id: string;
}

/** The credential by which the principal was let in. */
export function credentialOf({ by }: Principal): CredentialRef {
  return { type: by.type, id: by.type === 'session' ? by.session.meta.id : by.key.meta.id };
}

/** Names the principal whose answers are its own: the key or the user. It is never a secret. */
export function principalId(principal: Principal): string {
  return principal.by.type === 'key' ? `key/${principal.by.key.meta.id}` : `user/${principal.user.meta.id}`;
}
