import { settingsId } from './kinds/settings.ts';
import type { Budget, Circle, TerminalCircle } from './kinds/settings.ts';
import type { TenantView } from './mirror.ts';
import type { ReadonlyResource } from './resource.ts';
import { revision } from './revision.ts';

/** The scopes that have budgets, from the narrowest. */
export const budgetScopes = ['project', 'user', 'tenant'] as const;
export type BudgetScope = (typeof budgetScopes)[number];

/** The bounds of one scope; 0: it has no such bound of its own. */
export type Bounds = Readonly<Record<keyof Budget, number>>;

/** The settings that hold in a tenant: each field as it was set, or its default. */
export interface TenantSettings {
  project_creation: Circle;
  new_addresses: Circle;
  server_terminals: TerminalCircle;
  registries: readonly string[];
  backup_endpoints: readonly string[];
  budgets: Readonly<Record<BudgetScope, Bounds>>;
}

const MiB = 1024 * 1024;

/** The settings that hold where none were set. */
export const defaultSettings: TenantSettings = {
  project_creation: 'users',
  new_addresses: 'admins',
  server_terminals: 'admins',
  registries: [
    'docker.io',
    'ghcr.io',
    'quay.io',
    'registry.gitlab.com',
    'public.ecr.aws',
    'gcr.io',
    '*.gcr.io',
    '*.pkg.dev',
    'mcr.microsoft.com',
    'registry.k8s.io',
    'nvcr.io',
    'docker.elastic.co',
    'lscr.io',
    'codeberg.org',
    'registry.access.redhat.com',
  ],
  backup_endpoints: [],
  budgets: {
    project: {
      stored_bytes: 64 * MiB,
      written_bytes_per_minute: 16 * MiB,
      objects: 10_000,
      build_minutes_per_day: 24 * 60,
    },
    user: {
      stored_bytes: 128 * MiB,
      written_bytes_per_minute: 32 * MiB,
      objects: 20_000,
      build_minutes_per_day: 2 * 24 * 60,
    },
    tenant: {
      stored_bytes: 512 * MiB,
      written_bytes_per_minute: 64 * MiB,
      objects: 100_000,
      build_minutes_per_day: 10 * 24 * 60,
    },
  },
};

/** The settings of a tenant as an object. Settings that were never written are at revision 0 and empty. */
export function settingsObject(view: TenantView): ReadonlyResource<'settings'> {
  return view.get('settings', settingsId) ?? unwritten(view.tenant);
}

/** The settings that hold in a tenant. */
export function settingsOf(view: TenantView): TenantSettings {
  const it = view.get('settings', settingsId);
  return it === undefined ? defaultSettings : effective(it);
}

/** The settings that follow from a settings object: absent fields have their defaults. */
export function effective({ desired }: ReadonlyResource<'settings'>): TenantSettings {
  const { project_creation, new_addresses, server_terminals, registries, backup_endpoints, budgets } = desired;
  return {
    project_creation: project_creation ?? defaultSettings.project_creation,
    new_addresses: new_addresses ?? defaultSettings.new_addresses,
    server_terminals: server_terminals ?? defaultSettings.server_terminals,
    registries: registries ?? defaultSettings.registries,
    backup_endpoints: backup_endpoints ?? defaultSettings.backup_endpoints,
    budgets: {
      project: budgetOf(budgets.project, defaultSettings.budgets.project),
      user: budgetOf(budgets.user, defaultSettings.budgets.user),
      tenant: budgetOf(budgets.tenant, defaultSettings.budgets.tenant),
    },
  };
}

/** Whether images of that registry (`HOST` or `HOST:PORT`, in lower case) may be used. */
export function isAllowedRegistry(registries: readonly string[], host: string): boolean {
  return registries.some((it) => it === host || (it.startsWith('*.') && isBelow(host, it.slice(2))));
}

/** Whether a host is below a name. An IP address is below none, whatever its last digits are. */
function isBelow(host: string, name: string): boolean {
  return host.endsWith(`.${name}`) && host.length > name.length + 1 && !/^[0-9.]+(:|$)/.test(host);
}

function budgetOf(set: Budget | undefined, byDefault: Bounds): Bounds {
  return {
    stored_bytes: set?.stored_bytes ?? byDefault.stored_bytes,
    written_bytes_per_minute: set?.written_bytes_per_minute ?? byDefault.written_bytes_per_minute,
    objects: set?.objects ?? byDefault.objects,
    build_minutes_per_day: set?.build_minutes_per_day ?? byDefault.build_minutes_per_day,
  };
}

function unwritten(tenant: string): ReadonlyResource<'settings'> {
  return {
    meta: {
      tenant,
      kind: 'settings',
      id: settingsId,
      generation: 0,
      desiredRevision: revision(0),
      createdAt: new Date(0).toISOString(),
      updatedAt: new Date(0).toISOString(),
      finalizers: [],
      owners: [],
      labels: {},
    },
    desired: { budgets: {} },
  };
}
