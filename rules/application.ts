import { beingDeleted } from './verb-table.ts';
import type { Cell, Shown, VerbTable } from './verb-table.ts';

/**
 * `cancelled`: it shall run, but its first deployment was cancelled. `ended`: its processes have come to an end after which
 * its restart policy starts none. `stopping`: it shall be stopped, and its instances have not ended yet.
 */
const states = [
  'running',
  'deploying',
  'failed',
  'error',
  'cancelled',
  'ended',
  'stopping',
  'stopped',
  'deleting',
] as const;
type State = (typeof states)[number];

/** Reasons of the condition `Ready` of an application that has ended by itself. */
const ends: ReadonlySet<unknown> = new Set(['Completed', 'Exited']);

/** Whether processes have come to an end after which the restart policy starts none. */
export function hasEnded(conditions: unknown): boolean {
  const all: readonly unknown[] = Array.isArray(conditions) ? conditions : [];
  return all.some(
    (it) =>
      typeof it === 'object' &&
      it !== null &&
      'type' in it &&
      it.type === 'Ready' &&
      'reason' in it &&
      ends.has(it.reason),
  );
}

const deleting = beingDeleted('Application');
const always: Record<State, Cell> = {
  running: 'yes',
  deploying: 'yes',
  failed: 'yes',
  error: 'yes',
  cancelled: 'yes',
  ended: 'yes',
  stopping: 'yes',
  stopped: 'yes',
  deleting,
};
const noInstance: Cell = { idle: 'No instance runs that could be restarted: deploy the application' };
const isStopped: Cell = { no: 'Cannot restart as the application is stopped: start it' };

export const applicationVerbs = {
  states,
  stateOf({ status, run, conditions }: Shown): State | undefined {
    if (status === 'deleting') return status;
    if (run === 'stopped') return status === 'stopped' ? 'stopped' : 'stopping';
    if ((status === 'stopped' || status === 'failed') && hasEnded(conditions)) return 'ended';
    return status === 'stopped' ? 'cancelled' : states.find((state) => state === status);
  },
  verbs: {
    deploy: { label: 'Deploy', route: 'POST /applications/:id/deploy', in: always },
    start: {
      label: 'Start',
      route: 'POST /applications/:id/start',
      in: {
        running: { idle: 'The application runs already' },
        deploying: { idle: 'The application is being deployed' },
        failed: 'yes',
        error: { idle: 'The application is to run already: its condition Ready names what is wrong' },
        cancelled: 'yes',
        ended: 'yes',
        stopping: 'yes',
        stopped: 'yes',
        deleting,
      },
    },
    stop: {
      label: 'Stop',
      route: 'POST /applications/:id/stop',
      in: {
        ...always,
        stopping: { idle: 'The application is being stopped' },
        stopped: { idle: 'The application is stopped already' },
      },
    },
    restart: {
      label: 'Restart',
      route: 'POST /applications/:id/restart',
      in: { ...always, failed: noInstance, cancelled: noInstance, stopping: isStopped, stopped: isStopped },
    },
    rollback: { label: 'Roll back', route: 'POST /applications/:id/rollback', in: always },
    scale: { label: 'Scale', route: 'POST /applications/:id/scale', in: always },
    grant: { label: 'Grant capabilities', route: 'PUT /applications/:id/capabilities', in: always },
    sync: { label: 'Compare with the branch', route: 'POST /applications/:appId/deployments/sync', in: always },
    dockerfile: { label: 'Show the generated Dockerfile', route: 'POST /applications/:id/dockerfile', in: always },
    update: { label: 'Change', route: 'PUT /applications/:id', in: always },
    replace_env: { label: 'Replace variables', route: 'PUT /applications/:id/env', in: always },
    merge_env: { label: 'Set variables', route: 'PATCH /applications/:id/env', in: always },
    back_up: { label: 'Back up its volumes', route: 'POST /applications/:id/volume-backups', in: always },
    run: { label: 'Run a command', route: 'POST /applications/:id/run', in: always },
    terminal: {
      label: 'Open a terminal',
      route: 'POST /applications/:id/terminal',
      in: { ...always, stopped: { no: 'Cannot open a terminal as the application is stopped: start it first' } },
    },
    delete: {
      label: 'Delete',
      route: 'DELETE /applications/:id',
      in: { ...always, deleting: { idle: 'The application is being deleted already' } },
    },
  },
} as const satisfies VerbTable<State>;
