import { byStatus } from './verb-table.ts';
import type { Cell, VerbTable } from './verb-table.ts';

const states = ['queued', 'building', 'deploying', 'succeeded', 'failed', 'cancelled', 'superseded'] as const;
type State = (typeof states)[number];

const ended = (how: string): Cell => ({ no: `Cannot cancel as the deployment ${how}` });

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
        succeeded: ended('has succeeded: roll back to run an earlier one again'),
        failed: ended('has failed: it does nothing any more'),
        cancelled: { idle: 'The deployment is cancelled already' },
        superseded: ended('is superseded: cancel the newer one'),
      },
    },
  },
} as const satisfies VerbTable<State>;
