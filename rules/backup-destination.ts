import { byStatus } from './verb-table.ts';
import type { Cell, VerbTable } from './verb-table.ts';

const states = ['pending', 'reachable', 'unreachable'] as const;
type State = (typeof states)[number];

/** A deletion of a destination that is referred to is refused by the API. */
const always: Record<State, Cell> = { pending: 'yes', reachable: 'yes', unreachable: 'yes' };

export const backupDestinationVerbs = {
  states,
  stateOf: byStatus(states),
  verbs: {
    update: { label: 'Change', route: 'PUT /settings/backup-destinations/:id', in: always },
    import: {
      label: 'Take up its backups',
      route: 'POST /settings/backup-destinations/:id/import',
      in: always,
    },
    delete: { label: 'Delete', route: 'DELETE /settings/backup-destinations/:id', in: always },
  },
} as const satisfies VerbTable<State>;
