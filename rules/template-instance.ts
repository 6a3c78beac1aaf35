import { beingDeleted, byStatus } from './verb-table.ts';
import type { Cell, VerbTable } from './verb-table.ts';

const states = ['pending', 'deploying', 'running', 'degraded', 'failed', 'deleting'] as const;
type State = (typeof states)[number];

/** What failed is mended by another revision. */
const changeable: Record<State, Cell> = {
  pending: 'yes',
  deploying: 'yes',
  running: 'yes',
  degraded: 'yes',
  failed: 'yes',
  deleting: beingDeleted('The instance'),
};

export const templateInstanceVerbs = {
  states,
  stateOf: byStatus(states),
  verbs: {
    upgrade: { label: 'Upgrade', route: 'PUT /template-instances/:id', in: changeable },
    rollback: { label: 'Roll back', route: 'POST /template-instances/:id/rollback', in: changeable },
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
