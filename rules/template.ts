import { byStatus } from './verb-table.ts';
import type { Cell, VerbTable } from './verb-table.ts';

const states = ['unused', 'used'] as const;
type State = (typeof states)[number];

/** Instances have all that they need of their template: it may change and go. */
const always: Record<State, Cell> = { unused: 'yes', used: 'yes' };

export const templateVerbs = {
  states,
  stateOf: byStatus(states),
  verbs: {
    instantiate: { label: 'Instantiate', route: 'POST /templates/:id/instantiate', in: always },
    update: { label: 'Change', route: 'PUT /templates/:id', in: always },
    delete: { label: 'Delete', route: 'DELETE /templates/:id', in: always },
  },
} as const satisfies VerbTable<State>;
