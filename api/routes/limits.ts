import type { Bounds } from '../../store/settings.ts';
import { isTenantWide, visibleProjects } from '../rights/authorize.ts';
import type { Scope } from '../budgets/scope.ts';
import type { RequestContext } from '../endpoint/context.ts';
import { defineEndpoint } from '../endpoint/endpoint.ts';
import { Limits } from '../resources/limits.ts';
import type { Allowed, ScopeLimits } from '../resources/limits.ts';

/** Most projects in one answer. */
const shown = 100;

export const getLimits = defineEndpoint({
  method: 'GET',
  path: '/limits',
  summary: 'What is used and what is allowed: of oneself, of the projects that one may see, for admins of the tenant',
  response: Limits,
  handle: async (ctx) => {
    const { principal, view } = ctx;
    const { user } = principal;
    const visible = visibleProjects(principal, view);
    const projects = view
      .list('project')
      .filter(({ meta }) => visible === 'all' || visible.has(meta.id))
      .map(({ meta, desired }) => limitsOf(ctx, { of: 'project', id: meta.id }, meta.id, desired.name))
      .toSorted((a, b) => b.used.stored_bytes - a.used.stored_bytes);
    const scopes = [
      ...(isTenantWide(principal)
        ? [limitsOf(ctx, { of: 'installation' }, null, null), limitsOf(ctx, { of: 'tenant' }, null, null)]
        : []),
      limitsOf(ctx, { of: 'user', id: user.meta.id }, user.meta.id, user.desired.email),
      ...projects.slice(0, shown),
    ];
    return { scopes };
  },
});

function limitsOf(
  { budgets, view }: RequestContext,
  scope: Scope,
  id: string | null,
  name: string | null,
): ScopeLimits {
  return {
    scope: scope.of,
    id,
    name,
    used: budgets.usedBy(view, scope),
    allowed: allowed(budgets.boundsOf(view, scope)),
  };
}

function allowed(bounds: Bounds): Allowed {
  const orNone = (bound: number): number | null => (bound === 0 ? null : bound);
  return {
    stored_bytes: orNone(bounds.stored_bytes),
    written_bytes_per_minute: orNone(bounds.written_bytes_per_minute),
    objects: orNone(bounds.objects),
    build_minutes_per_day: orNone(bounds.build_minutes_per_day),
  };
}
