import { byStatus } from './verb-table.ts';
import type { Cell, VerbTable } from './verb-table.ts';

const states = ['unused', 'used'] as const;
type State = (typeof states)[number];

/** A deletion of a registry in use is refused by the API with the names of its applications. */
const always: Record<State, Cell> = { unused: 'yes', used: 'yes' };

export const registryVerbs = {
  states,
  stateOf: byStatus(states),
  verbs: {
    update: { label: 'Change', route: 'PUT /settings/registries/:id', in: always },
    test: { label: 'Test', route: 'POST /settings/registries/:id/test', in: always },
    delete: { label: 'Delete', route: 'DELETE /settings/registries/:id', in: always },
  },
} as const satisfies VerbTable<State>;
