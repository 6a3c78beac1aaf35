import { byStatus } from './verb-table.ts';
import type { Cell, VerbTable } from './verb-table.ts';

const states = ['queued', 'building', 'deploying', 'succeeded', 'failed', 'cancelled', 'superseded'] as const;
type State = (typeof states)[number];

const ended = (state: State): Cell => ({ no: `Cannot cancel as the deployment is ${state}` });

export const deploymentVerbs = {
  states,
  stateOf: byStatus(states),
  verbs: {
    cancel: {
      label: 'Cancel',
      route: 'POST /deployments/:id/cancel',
      in: {
        queued: 'yes',
        building: 'yes',
        deploying: 'yes',
        succeeded: ended('succeeded'),
        failed: ended('failed'),
        cancelled: { idle: 'The deployment is cancelled already' },
        superseded: ended('superseded'),
      },
    },
  },
} as const satisfies VerbTable<State>;
