import { z } from 'zod';
import { Budget, Circle, EndpointHost, RegistryHost, TerminalCircle } from '../../store/kinds/settings.ts';
import { budgetScopes, effective, settingsObject } from '../../store/settings.ts';
import type { ReadonlyResource } from '../../store/resource.ts';
import { defineResource } from './resource.ts';

const { shape: bounds } = Budget;
const bound = (field: keyof typeof bounds, text: string) =>
  bounds[field].unwrap().meta({ description: `${text}; 0: no such bound of its own` });

const EffectiveBudget = z
  .object({
    stored_bytes: bound('stored_bytes', 'Bytes in the store'),
    written_bytes_per_minute: bound('written_bytes_per_minute', 'Bytes that requests write in a minute'),
    objects: bound('objects', 'Objects that requests make'),
    build_minutes_per_day: bound('build_minutes_per_day', 'Minutes of builds in 24 hours'),
  })
  .meta({ id: 'Budget' });

/** The settings of a tenant, with defaults filled in. */
export const Settings = z
  .object({
    project_creation: Circle.meta({ description: 'Who may create projects' }),
    new_addresses: Circle.meta({
      description: 'Who may invite addresses without an account to a project: everybody who may invite, or admins',
    }),
    server_terminals: TerminalCircle.meta({
      description: 'Who may open terminals of servers: admins as well, or superadmins alone',
    }),
    registries: z.array(z.string()).meta({
      description: 'Registries that images may come from: HOST, HOST:PORT, or *.HOST for those below a name',
    }),
    backup_endpoints: z.array(z.string()).meta({
      description:
        'HOST or HOST:PORT: endpoints of backup destinations that may be on the machine of the control plane, in a private network, or asked by plain http',
    }),
    budgets: z.object({ project: EffectiveBudget, user: EffectiveBudget, tenant: EffectiveBudget }),
    resource_version: z.string(),
    updated_at: z.string().nullable().meta({ description: 'null: nothing was ever set' }),
  })
  .meta({ id: 'Settings' });
export type Settings = z.infer<typeof Settings>;

const BudgetChange = z
  .strictObject({
    stored_bytes: bounds.stored_bytes.nullable(),
    written_bytes_per_minute: bounds.written_bytes_per_minute.nullable(),
    objects: bounds.objects.nullable(),
    build_minutes_per_day: bounds.build_minutes_per_day.nullable(),
  })
  .partial();
type BudgetChange = z.infer<typeof BudgetChange>;

/** Only sent fields change, in budgets too; `null` returns to the default. */
export const SettingsUpdate = z
  .strictObject({
    project_creation: Circle.nullable(),
    new_addresses: Circle.nullable(),
    server_terminals: TerminalCircle.nullable(),
    registries: z
      .array(z.string().trim().toLowerCase().pipe(RegistryHost))
      .max(200)
      .transform((hosts) => [...new Set(hosts)])
      .nullable(),
    backup_endpoints: z
      .array(z.string().trim().toLowerCase().pipe(EndpointHost))
      .max(100)
      .transform((hosts) => [...new Set(hosts)])
      .nullable(),
    budgets: z.strictObject({ project: BudgetChange, user: BudgetChange, tenant: BudgetChange }).partial(),
  })
  .partial();
export type SettingsUpdate = z.infer<typeof SettingsUpdate>;

export const settings = defineResource({
  kind: 'settings',
  word: 'Settings',
  project: 'tenant',
  single: settingsObject,
  answer: Settings,
  show: toSettings,
  list: { texts: () => [] },
  verbs: { none: 'Settings have no states' },
  watch: { never: 'Few things change them, and nothing shows them all the time' },
});

function toSettings(it: ReadonlyResource<'settings'>): Settings {
  const { project_creation, new_addresses, server_terminals, registries, backup_endpoints, budgets } = effective(it);
  return {
    project_creation,
    new_addresses,
    server_terminals,
    registries: [...registries],
    backup_endpoints: [...backup_endpoints],
    budgets: { project: { ...budgets.project }, user: { ...budgets.user }, tenant: { ...budgets.tenant } },
    resource_version: String(it.meta.desiredRevision),
    updated_at: it.meta.generation === 0 ? null : it.meta.updatedAt,
  };
}

/** The budgets after some of their bounds were changed. */
export function changedBudgets(
  before: ReadonlyResource<'settings'>['desired']['budgets'],
  change: SettingsUpdate['budgets'] = {},
): Partial<Record<(typeof budgetScopes)[number], Budget>> {
  return Object.fromEntries(
    budgetScopes.flatMap((scope) => {
      const merged: BudgetChange = { ...before[scope], ...change[scope] };
      const kept = Object.entries(merged).filter(([, value]) => value !== null && value !== undefined);
      return kept.length === 0 ? [] : [[scope, Object.fromEntries(kept)]];
    }),
  );
}
