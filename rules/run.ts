import { byStatus } from './verb-table.ts';
import type { Cell, VerbTable } from './verb-table.ts';

const states = ['pending', 'running', 'succeeded', 'failed', 'cancelled', 'lost'] as const;
type State = (typeof states)[number];

const ended: Cell = { no: 'Cannot cancel as the command has ended: it does nothing any more' };

export const runVerbs = {
  states,
  stateOf: byStatus(states),
  verbs: {
    cancel: {
      label: 'Cancel',
      route: 'POST /runs/:id/cancel',
      in: {
        pending: 'yes',
        running: 'yes',
        succeeded: ended,
        failed: ended,
        cancelled: { idle: 'The command is cancelled already' },
        lost: { no: 'Cannot cancel as it is not known what became of the command: look on its server' },
      },
    },
  },
} as const satisfies VerbTable<State>;
