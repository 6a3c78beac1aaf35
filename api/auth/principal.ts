import type { ReadonlyResource } from '../../store/resource.ts';

/** Who asks, and by what: a login or a service key. Rights are never in it: they are read at each request. */
export interface Principal {
  user: ReadonlyResource<'user'>;
  by: { type: 'session'; session: ReadonlyResource<'session'> } | { type: 'key'; key: ReadonlyResource<'service_key'> };
}

/** The key behind a principal, if it is one. */
export function keyOf(principal: Principal): ReadonlyResource<'service_key'> | undefined {
  return principal.by.type === 'key' ? principal.by.key : undefined;
}

/** What distinguishes principals whose answers may differ; never a secret. */
export function principalId(principal: Principal): string {
  return principal.by.type === 'key' ? `key/${principal.by.key.meta.id}` : `user/${principal.user.meta.id}`;
}
