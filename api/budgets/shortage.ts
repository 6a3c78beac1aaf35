import type { Clock } from '../../time/clock.ts';
import type { TenantView } from '../../store/mirror.ts';
import type { Bounds } from '../../store/settings.ts';
import type { Usage } from '../../store/usage.ts';
import { conflicting, tooMany } from '../ground/api-error.ts';
import type { ApiError } from '../ground/api-error.ts';
import type { Principal } from '../auth/principal.ts';
import { isTenantWide } from '../rights/authorize.ts';
import { scopeName } from './scope.ts';
import type { Scope } from './scope.ts';

/** Builds the error for missing room: which scope lacks what, what takes most of it, and what to do. */
export interface Shortage {
  ofBytes(view: TenantView, caller: Principal, scope: Scope, of: { bytes: number; most: number }): ApiError;
  ofObjects(view: TenantView, caller: Principal, scope: Scope, of: { objects: number; most: number }): ApiError;
  ofRate(view: TenantView, scope: Scope, perMinute: number, waitMs: number): ApiError;
  ofRoom(): ApiError;
}

const words = {
  project: 'The project',
  user: 'The owner of the project',
  tenant: 'The tenant',
  installation: 'The installation',
};

/** How long the largest object of a scope is remembered: a refused client asks often. */
const keptMs = 10_000;
const maxKept = 1000;
/** History is compacted once a minute: a retry after that may find room. */
const roomSeconds = 60;

export function createShortage(usage: Usage, clock: Clock): Shortage {
  const kept = new Map<string, { at: number; text: string }>();

  const largestOf = (view: TenantView, caller: Principal, scope: Scope): string => {
    const name = `${scopeName(view.tenant, scope)} ${isTenantWide(caller) ? '' : caller.user.meta.id}`;
    const known = kept.get(name);
    const now = clock.monotonic();
    if (known !== undefined && now - known.at < keptMs) return known.text;
    if (kept.size >= maxKept) kept.clear();
    const text = largest(usage, view, caller, scope);
    kept.set(name, { at: now, text });
    return text;
  };

  return {
    ofBytes(view, caller, scope, { bytes, most }) {
      const message =
        `${words[scope.of]} would store ${size(bytes)} and may store ${size(most)}${keptText(scope)}. ` +
        `${largestOf(view, caller, scope)}Delete what is not needed${raise(scope, 'stored_bytes')}`;
      return conflicting(message, [{ field: '', reason: 'stored_budget', message }]);
    },
    ofObjects(view, caller, scope, { objects, most }) {
      const message =
        `${words[scope.of]} has ${objects} objects and may have ${most}${keptText(scope)}. ` +
        `${largestOf(view, caller, scope)}Delete what is not needed${raise(scope, 'objects')}`;
      return conflicting(message, [{ field: '', reason: 'objects_budget', message }]);
    },
    ofRate: (_view, scope, perMinute, waitMs) =>
      tooMany(
        `Requests of the ${scope.of} may write ${size(perMinute)} in a minute${keptText(scope)}, and they did: ` +
          `try again later${raise(scope, 'written_bytes_per_minute')}`,
        Math.ceil(waitMs / 1000),
      ),
    ofRoom: () =>
      tooMany('The store has little room until its history is compacted: try again in some minutes', roomSeconds),
  };
}

function keptText({ of }: Scope): string {
  return of === 'tenant' || of === 'installation' ? ', beside what is kept for its admins, logins and deletions' : '';
}

function raise({ of }: Scope, bound: keyof Bounds): string {
  if (of === 'installation') return ', or ask the operator for more memory or a larger store';
  return `, or ask a superadmin to raise budgets.${of}.${bound} in the settings`;
}

/** Names the largest object that the caller may see: in a project an application, elsewhere a project. */
function largest(usage: Usage, view: TenantView, caller: Principal, scope: Scope): string {
  const { tenant } = view;
  if (scope.of === 'project') {
    const found = top(view.by('application', 'project', scope.id), (it) =>
      view
        .by('deployment', 'application', it.meta.id)
        .reduce(
          (sum, { meta }) => sum + usage.ofObject(tenant, 'deployment', meta.id).bytes,
          usage.ofObject(tenant, 'application', it.meta.id).bytes,
        ),
    );
    return found === undefined
      ? ''
      : `Most is of the application ${found.name} with its deployments (${size(found.bytes)}). `;
  }
  const projects =
    scope.of !== 'user' && isTenantWide(caller)
      ? view.list('project')
      : view.by('project', 'owner', scope.of === 'user' ? scope.id : caller.user.meta.id);
  const isOther = scope.of === 'user' && scope.id !== caller.user.meta.id && !isTenantWide(caller);
  const found = isOther ? undefined : top(projects, ({ meta }) => usage.ofProject(tenant, meta.id).bytes);
  return found === undefined ? '' : `Most is of the project ${found.name} (${size(found.bytes)}). `;
}

interface Named {
  readonly meta: { readonly id: string };
  readonly desired: { readonly name: string };
}

function top<T extends Named>(
  all: readonly T[],
  bytesOf: (it: T) => number,
): { name: string; bytes: number } | undefined {
  let found: { name: string; bytes: number } | undefined;
  for (const it of all) {
    const bytes = bytesOf(it);
    if (found === undefined || bytes > found.bytes) found = { name: it.desired.name, bytes };
  }
  return found;
}

function size(bytes: number): string {
  if (bytes < 1024) return `${Math.round(bytes)} B`;
  if (bytes < 1024 * 1024) return `${Math.round(bytes / 102.4) / 10} KiB`;
  return `${Math.round(bytes / 104_857.6) / 10} MiB`;
}
