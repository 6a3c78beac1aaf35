import { beingDeleted, byStatus } from './verb-table.ts';
import type { Cell, VerbTable } from './verb-table.ts';

const states = ['active', 'overdue', 'paused', 'deleting'] as const;
type State = (typeof states)[number];

const always: Record<State, Cell> = {
  active: 'yes',
  overdue: 'yes',
  paused: 'yes',
  deleting: beingDeleted('Backup schedule'),
};

export const backupScheduleVerbs = {
  states,
  stateOf: byStatus(states),
  verbs: {
    run: { label: 'Back up now', route: 'POST /backup-schedules/:id/run', in: always },
    update: { label: 'Change', route: 'PUT /backup-schedules/:id', in: always },
    delete: {
      label: 'Delete',
      route: 'DELETE /backup-schedules/:id',
      in: { ...always, deleting: { idle: 'The backup schedule is being deleted already' } },
    },
  },
} as const satisfies VerbTable<State>;
