import { beingDeleted, byStatus } from './verb-table.ts';
import type { VerbTable } from './verb-table.ts';

const states = [
  'pending',
  'preparing',
  'restoring',
  'verifying',
  'ready_to_switch',
  'switching',
  'completed',
  'failed',
  'deleting',
] as const;
type State = (typeof states)[number];

export const restoreVerbs = {
  states,
  stateOf: byStatus(states),
  verbs: {
    cancel: {
      label: 'Cancel',
      route: 'POST /restores/:id/cancel',
      in: {
        pending: 'yes',
        preparing: 'yes',
        restoring: 'yes',
        verifying: 'yes',
        ready_to_switch: 'yes',
        switching: { no: 'Cannot cancel as what was restored is about to take its place: wait for the end' },
        completed: { no: 'Cannot cancel as the restore has ended: the former data is in its former volume' },
        failed: { no: 'Cannot cancel as the restore has ended' },
        deleting: beingDeleted('Restore'),
      },
    },
  },
} as const satisfies VerbTable<State>;
