import { beingDeleted, byStatus } from './verb-table.ts';
import type { Cell, VerbTable } from './verb-table.ts';

const states = ['pending', 'in_sync', 'drifted', 'waiting', 'failed', 'paused', 'deleting'] as const;
type State = (typeof states)[number];

const always: Record<State, Cell> = {
  pending: 'yes',
  in_sync: 'yes',
  drifted: 'yes',
  waiting: 'yes',
  failed: 'yes',
  paused: 'yes',
  deleting: beingDeleted('Sync'),
};

export const syncVerbs = {
  states,
  stateOf: byStatus(states),
  verbs: {
    run: {
      label: 'Sync now',
      route: 'POST /syncs/:id/sync',
      in: { ...always, paused: { no: 'The sync is paused: let it go on first (is_paused: false)' } },
    },
    rollback: {
      label: 'Roll back',
      route: 'POST /syncs/:id/rollback',
      in: { ...always, paused: { no: 'The sync is paused: let it go on first (is_paused: false)' } },
    },
    update: { label: 'Change', route: 'PUT /syncs/:id', in: always },
    delete: {
      label: 'Delete',
      route: 'DELETE /syncs/:id',
      in: { ...always, deleting: { idle: 'The sync is being deleted already' } },
    },
  },
} as const satisfies VerbTable<State>;
