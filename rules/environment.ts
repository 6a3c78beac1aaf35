import { beingDeleted } from './verb-table.ts';
import type { Cell, Shown, VerbTable } from './verb-table.ts';

/** `default`: the one of its project. `cloning`: not all that its source had is in it yet. */
const states = ['active', 'default', 'cloning', 'deleting'] as const;
type State = (typeof states)[number];

const deleting = beingDeleted('Environment');
const always: Record<State, Cell> = { active: 'yes', default: 'yes', cloning: 'yes', deleting };
const cloning: Cell = {
  no: 'The environment is still being cloned: wait until its condition Ready is true, or delete it',
  detail: { field: 'environment_id', reason: 'cloning' },
};

function isUnfinished(cloneOf: unknown): boolean {
  return typeof cloneOf === 'object' && cloneOf !== null && 'complete' in cloneOf && cloneOf.complete === false;
}

export const environmentVerbs = {
  states,
  stateOf({ status, is_default, clone_of }: Shown): State | undefined {
    if (status !== 'active') return states.find((state) => state === status);
    if (is_default === true) return 'default';
    return isUnfinished(clone_of) ? 'cloning' : 'active';
  },
  verbs: {
    update: { label: 'Change', route: 'PUT /projects/:projectId/environments/:envId', in: always },
    set_default: {
      label: 'Make the default',
      route: 'POST /projects/:projectId/environments/:envId/set-default',
      in: { ...always, default: { idle: 'The environment is the default one already' }, cloning },
    },
    clone: {
      label: 'Clone',
      route: 'POST /projects/:projectId/environments/:envId/clone',
      in: { ...always, cloning },
    },
    delete: {
      label: 'Delete',
      route: 'DELETE /projects/:projectId/environments/:envId',
      in: {
        ...always,
        default: { no: 'Cannot delete the default environment of a project: make another one the default first' },
        deleting: { idle: 'The environment is being deleted already' },
      },
    },
  },
} as const satisfies VerbTable<State>;
