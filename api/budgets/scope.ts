import type { TenantView } from '../../store/mirror.ts';
import { settingsOf } from '../../store/settings.ts';
import type { Bounds } from '../../store/settings.ts';
import type { Amount, Usage } from '../../store/usage.ts';
import type { Capacity } from './capacity.ts';

/** What has a budget: a project, a user with the user's projects, a tenant, and the whole installation. */
export type Scope =
  | { of: 'project'; id: string }
  | { of: 'user'; id: string }
  | { of: 'tenant' }
  | { of: 'installation' };

/** Most that a scope may have of the installation, whatever its settings allow: the other scopes must go on. */
const shares = { project: 0.25, user: 0.25, tenant: 0.5, installation: 1 } as const;

/** Unique name of a scope within the installation. */
export function scopeName(tenant: string, scope: Scope): string {
  if (scope.of === 'installation') return 'installation';
  return 'id' in scope ? `${tenant}/${scope.of}/${scope.id}` : tenant;
}

/** The bounds in force for a scope; 0: no bound. */
export function boundsOf(view: TenantView, scope: Scope, capacity: Capacity): Bounds {
  const share = shares[scope.of];
  const stored = Math.floor(capacity.storedBytes * share);
  const written = Math.floor(capacity.writtenBytesPerMinute * share);
  if (scope.of === 'installation')
    return { stored_bytes: stored, written_bytes_per_minute: finite(written), objects: 0, build_minutes_per_day: 0 };
  const set = settingsOf(view).budgets[scope.of];
  return {
    ...set,
    stored_bytes: least(set.stored_bytes, stored),
    written_bytes_per_minute: least(set.written_bytes_per_minute, finite(written)),
  };
}

/** What a scope has stored. */
export function storedBy(usage: Usage, view: TenantView, scope: Scope): Amount {
  switch (scope.of) {
    case 'project':
      return usage.ofProject(view.tenant, scope.id);
    case 'tenant':
      return usage.ofTenant(view.tenant);
    case 'installation':
      return usage.total;
    case 'user': {
      const sum = { ...usage.ofAccount(view.tenant, scope.id) };
      for (const { meta } of view.by('project', 'owner', scope.id)) {
        const { bytes, objects } = usage.ofProject(view.tenant, meta.id);
        sum.bytes += bytes;
        sum.objects += objects;
      }
      return sum;
    }
  }
}

function least(a: number, b: number): number {
  return a === 0 || b === 0 ? a + b : Math.min(a, b);
}

/** A store of unlimited size gives no bound. */
function finite(bytes: number): number {
  return Number.isFinite(bytes) ? bytes : 0;
}
