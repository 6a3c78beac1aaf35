import { byStatus } from './verb-table.ts';
import type { VerbTable } from './verb-table.ts';

const states = ['pending', 'deploying', 'running', 'degraded', 'failed', 'deleting'] as const;
type State = (typeof states)[number];

export const templateInstanceVerbs = {
  states,
  stateOf: byStatus(states),
  verbs: {
    delete: {
      label: 'Delete',
      route: 'DELETE /template-instances/:id',
      in: {
        pending: 'yes',
        deploying: 'yes',
        running: 'yes',
        degraded: 'yes',
        failed: 'yes',
        deleting: { idle: 'The instance is being deleted already' },
      },
    },
  },
} as const satisfies VerbTable<State>;
