import { beingDeleted, byStatus } from './verb-table.ts';
import type { Cell, Shown, VerbTable } from './verb-table.ts';

/** `unbuilt`: it shall run, and has no version that may serve. `stopping`: it shall be stopped, and is not yet. */
const states = ['running', 'deploying', 'failed', 'error', 'unbuilt', 'stopping', 'stopped', 'deleting'] as const;
type State = (typeof states)[number];

const deleting = beingDeleted('Function');
const always: Record<State, Cell> = {
  running: 'yes',
  deploying: 'yes',
  failed: 'yes',
  error: 'yes',
  unbuilt: 'yes',
  stopping: 'yes',
  stopped: 'yes',
  deleting,
};
const isStopped: Cell = { no: 'Cannot call the function as it is stopped: start it' };
const isUnbuilt: Cell = { no: 'Cannot call the function as no version of it serves: start it, or deploy it' };

export const functionVerbs = {
  states,
  stateOf({ status, run }: Shown): State | undefined {
    if (status === 'deleting') return status;
    if (run === 'stopped') return status === 'stopped' ? 'stopped' : 'stopping';
    return status === 'stopped' ? 'unbuilt' : states.find((state) => state === status);
  },
  verbs: {
    deploy: { label: 'Deploy', route: 'POST /functions/:id/deploy', in: always },
    deploy_version: {
      label: 'Let this version serve',
      route: 'POST /functions/:id/versions/:versionId/deploy',
      in: always,
    },
    start: {
      label: 'Start',
      route: 'POST /functions/:id/start',
      in: {
        running: { idle: 'The function runs already' },
        deploying: { idle: 'The function is being deployed' },
        failed: 'yes',
        error: { idle: 'The function is to run already: its condition Ready names what is wrong' },
        unbuilt: 'yes',
        stopping: 'yes',
        stopped: 'yes',
        deleting,
      },
    },
    stop: {
      label: 'Stop',
      route: 'POST /functions/:id/stop',
      in: {
        ...always,
        stopping: { idle: 'The function is being stopped' },
        stopped: { idle: 'The function is stopped already' },
      },
    },
    invoke: {
      label: 'Call',
      route: 'POST /functions/:id/invoke',
      in: { ...always, failed: isUnbuilt, unbuilt: isUnbuilt, stopping: isStopped, stopped: isStopped },
    },
    update: { label: 'Change', route: 'PUT /functions/:id', in: always },
    delete: {
      label: 'Delete',
      route: 'DELETE /functions/:id',
      in: { ...always, deleting: { idle: 'The function is being deleted already' } },
    },
  },
} as const satisfies VerbTable<State>;

const versionStates = ['building', 'ready', 'failed', 'deleting'] as const;

export const functionVersionVerbs = {
  states: versionStates,
  stateOf: byStatus(versionStates),
  verbs: {},
} as const satisfies VerbTable<(typeof versionStates)[number]>;
