import { beingDeleted } from './verb-table.ts';
import type { Cell, Shown, VerbTable } from './verb-table.ts';

/** `stopping`: it shall be stopped, and its instance has not ended yet. */
const states = ['running', 'provisioning', 'error', 'stopping', 'stopped', 'deleting'] as const;
type State = (typeof states)[number];

const deleting = beingDeleted('Database');
const always: Record<State, Cell> = {
  running: 'yes',
  provisioning: 'yes',
  error: 'yes',
  stopping: 'yes',
  stopped: 'yes',
  deleting,
};

export const databaseVerbs = {
  states,
  stateOf({ status, run }: Shown): State | undefined {
    if (status === 'deleting') return status;
    if (run === 'stopped') return status === 'stopped' ? 'stopped' : 'stopping';
    return states.find((state) => state === status);
  },
  verbs: {
    start: {
      label: 'Start',
      route: 'POST /databases/:id/start',
      in: {
        running: { idle: 'The database runs already' },
        provisioning: { idle: 'The database is being started' },
        error: { idle: 'The database is to run already: its condition Ready names what is wrong' },
        stopping: 'yes',
        stopped: 'yes',
        deleting,
      },
    },
    stop: {
      label: 'Stop',
      route: 'POST /databases/:id/stop',
      in: {
        ...always,
        stopping: { idle: 'The database is being stopped' },
        stopped: { idle: 'The database is stopped already' },
      },
    },
    restart: {
      label: 'Restart',
      route: 'POST /databases/:id/restart',
      in: {
        ...always,
        stopping: { no: 'Cannot restart as the database is stopped: start it' },
        stopped: { no: 'Cannot restart as the database is stopped: start it' },
      },
    },
    rotate: { label: 'Change its password', route: 'POST /databases/:id/rotate-password', in: always },
    update: { label: 'Change', route: 'PUT /databases/:id', in: always },
    terminal: {
      label: 'Open its client',
      route: 'POST /databases/:id/terminal',
      in: { ...always, stopped: { no: 'Cannot open a terminal as the database is stopped: start it first' } },
    },
    backup: {
      label: 'Back up',
      route: 'POST /databases/:id/backups',
      in: {
        ...always,
        stopping: { no: 'Cannot back up the database as it is being stopped: start it first' },
        stopped: { no: 'Cannot back up the database as it is stopped: start it first' },
      },
    },
    restore: { label: 'Restore', route: 'POST /databases/:id/restore', in: always },
    import: { label: 'Import a dump', route: 'POST /databases/:id/import', in: always },
    import_file: {
      label: 'Import a file of the server',
      route: 'POST /databases/:id/restore-from-path',
      in: always,
    },
    recover: { label: 'Recover to a time', route: 'POST /databases/:id/pitr', in: always },
    clone: { label: 'Make a copy of a time', route: 'POST /databases/:id/pitr-clone', in: always },
    switch: { label: 'Serve what was recovered', route: 'POST /databases/:id/switch', in: always },
    delete: {
      label: 'Delete',
      route: 'DELETE /databases/:id',
      in: { ...always, deleting: { idle: 'The database is being deleted already' } },
    },
  },
} as const satisfies VerbTable<State>;
