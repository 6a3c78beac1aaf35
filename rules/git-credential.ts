import { byStatus } from './verb-table.ts';
import type { Cell, VerbTable } from './verb-table.ts';

const states = ['unused', 'used'] as const;
type State = (typeof states)[number];

/** A deletion of a credential in use is refused by the API with the names of its applications. */
const always: Record<State, Cell> = { unused: 'yes', used: 'yes' };

export const gitCredentialVerbs = {
  states,
  stateOf: byStatus(states),
  verbs: {
    update: { label: 'Change', route: 'PUT /settings/git-credentials/:id', in: always },
    delete: { label: 'Delete', route: 'DELETE /settings/git-credentials/:id', in: always },
  },
} as const satisfies VerbTable<State>;
