import { beingDeleted, byStatus } from './verb-table.ts';
import type { Cell, VerbTable } from './verb-table.ts';

const states = ['pending', 'running', 'verifying', 'completed', 'failed', 'expired', 'deleting'] as const;
type State = (typeof states)[number];

const deleting = beingDeleted('Backup');
const always: Record<State, Cell> = {
  pending: 'yes',
  running: 'yes',
  verifying: 'yes',
  completed: 'yes',
  failed: 'yes',
  expired: 'yes',
  deleting,
};
const notYet: Cell = { no: 'Cannot restore the backup as it is not completed yet: wait for its end' };
const restorable: Record<State, Cell> = {
  ...always,
  pending: notYet,
  running: notYet,
  verifying: notYet,
  failed: { no: 'Cannot restore the backup as it failed: choose one that is completed' },
  expired: { no: 'Cannot restore the backup as its object was removed: choose one that is completed' },
};
const ended: Cell = { no: 'Cannot cancel as the backup has ended: delete it if it is not wanted' };
const gone: Cell = { no: 'Cannot change the backup as there is nothing in the bucket any more' };

export const backupVerbs = {
  states,
  stateOf: byStatus(states),
  verbs: {
    cancel: {
      label: 'Cancel',
      route: 'POST /backups/:id/cancel',
      in: { ...always, completed: ended, failed: ended, expired: ended },
    },
    restore: {
      label: 'Restore',
      route: 'POST /backups/database/:id/restore',
      in: restorable,
    },
    restore_volume: { label: 'Restore', route: 'POST /backups/volume/:id/restore', in: restorable },
    clone: { label: 'Restore as a new volume', route: 'POST /backups/volume/:id/clone', in: restorable },
    verify: { label: 'Restore for trial', route: 'POST /backups/:id/verify', in: restorable },
    update: { label: 'Change', route: 'PUT /backups/:id', in: { ...always, failed: gone, expired: gone } },
    delete: {
      label: 'Delete',
      route: 'DELETE /backups/:id',
      in: { ...always, deleting: { idle: 'The backup is being deleted already' } },
    },
  },
} as const satisfies VerbTable<State>;
