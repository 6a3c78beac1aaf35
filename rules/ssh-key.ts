import { byStatus } from './verb-table.ts';
import type { Cell, VerbTable } from './verb-table.ts';

const states = ['unused', 'used'] as const;
type State = (typeof states)[number];

/** A deletion of a key in use is refused by the API with the names of its servers. */
const always: Record<State, Cell> = { unused: 'yes', used: 'yes' };

export const sshKeyVerbs = {
  states,
  stateOf: byStatus(states),
  verbs: {
    update: { label: 'Change', route: 'PUT /settings/ssh-keys/:id', in: always },
    delete: { label: 'Delete', route: 'DELETE /settings/ssh-keys/:id', in: always },
  },
} as const satisfies VerbTable<State>;
