import { byStatus } from './verb-table.ts';
import type { Cell, VerbTable } from './verb-table.ts';

const states = ['active'] as const;
type State = (typeof states)[number];

const always: Record<State, Cell> = { active: 'yes' };

export const gitWebhookVerbs = {
  states,
  stateOf: byStatus(states),
  verbs: {
    update: { label: 'Change', route: 'PUT /webhooks/git/:id', in: always },
    delete: { label: 'Delete', route: 'DELETE /webhooks/git/:id', in: always },
  },
} as const satisfies VerbTable<State>;
