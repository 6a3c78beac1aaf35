import { beingDeleted, byStatus } from './verb-table.ts';
import type { Cell, VerbTable } from './verb-table.ts';

const states = ['awaiting_approval', 'creating', 'deploying', 'ready', 'failed', 'deleting'] as const;
type State = (typeof states)[number];

const approved: Cell = { no: 'Cannot approve as nothing of the preview waits for an approval' };

export const previewVerbs = {
  states,
  stateOf: byStatus(states),
  verbs: {
    approve: {
      label: 'Approve',
      route: 'POST /previews/:id/approve',
      in: {
        awaiting_approval: 'yes',
        creating: approved,
        deploying: approved,
        ready: approved,
        failed: approved,
        deleting: beingDeleted('Preview'),
      },
    },
    update: {
      label: 'Change',
      route: 'PUT /previews/:id',
      in: {
        awaiting_approval: 'yes',
        creating: 'yes',
        deploying: 'yes',
        ready: 'yes',
        failed: 'yes',
        deleting: beingDeleted('Preview'),
      },
    },
    delete: {
      label: 'Delete',
      route: 'DELETE /previews/:id',
      in: {
        awaiting_approval: 'yes',
        creating: 'yes',
        deploying: 'yes',
        ready: 'yes',
        failed: 'yes',
        deleting: { idle: 'The preview is being deleted already' },
      },
    },
  },
} as const satisfies VerbTable<State>;
