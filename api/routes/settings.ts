import { settingsObject } from '../../store/settings.ts';
import { settingsId } from '../../store/kinds/settings.ts';
import { defineEndpoint } from '../endpoint/endpoint.ts';
import { assign, readOnlyFields } from '../resources/object-fields.ts';
import { changedBudgets, settings, Settings, SettingsUpdate } from '../resources/settings.ts';

export const getSettings = defineEndpoint({
  method: 'GET',
  path: '/settings',
  summary: 'What holds in the tenant: who may create projects and invite whom, registries, budgets',
  response: Settings,
  handle: async ({ view }) => settings.answerOf(settingsObject(view), view),
});

export const updateSettings = defineEndpoint({
  method: 'PUT',
  path: '/settings',
  summary: 'Change settings of the tenant; only what is sent changes, and null returns to the default',
  on: ['settings', ''],
  body: SettingsUpdate,
  readOnly: readOnlyFields(Settings, SettingsUpdate),
  response: Settings,
  handle: async (ctx, { it, body }) => {
    const unit = ctx.repo.begin();
    const isNew = it.meta.generation === 0;
    const known = isNew ? unit.create('settings', settingsId, { budgets: {} }) : it;
    const changed = unit.change(known, (draft) => {
      assign(draft, 'project_creation', body.project_creation);
      assign(draft, 'new_addresses', body.new_addresses);
      assign(draft, 'server_terminals', body.server_terminals);
      assign(draft, 'registries', body.registries);
      assign(draft, 'backup_endpoints', body.backup_endpoints);
      draft.budgets = changedBudgets(draft.budgets, body.budgets);
    });
    unit.require(ctx.principal.user);
    return ctx.commit(unit, () => settings.answerOf(changed, ctx.view));
  },
});
