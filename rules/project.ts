import { beingDeleted, byStatus } from './verb-table.ts';
import type { Cell, VerbTable } from './verb-table.ts';

const states = ['active', 'deleting'] as const;
type State = (typeof states)[number];

const always: Record<State, Cell> = { active: 'yes', deleting: beingDeleted('Project') };

export const projectVerbs = {
  states,
  stateOf: byStatus(states),
  verbs: {
    update: { label: 'Change', route: 'PUT /projects/:id', in: always },
    create_environment: { label: 'Add an environment', route: 'POST /projects/:projectId/environments', in: always },
    add_member: { label: 'Add a member', route: 'POST /projects/:id/members', in: always },
    invite: { label: 'Invite', route: 'POST /projects/:id/invites', in: always },
    transfer: { label: 'Transfer', route: 'POST /projects/:id/transfer', in: always },
    set_icon: { label: 'Set the icon', route: 'POST /projects/:id/icon', in: always },
    remove_icon: {
      label: 'Remove the icon',
      route: 'DELETE /projects/:id/icon',
      in: { ...always, deleting: 'yes' },
    },
    delete: {
      label: 'Delete',
      route: 'DELETE /projects/:id',
      in: { ...always, deleting: { idle: 'The project is being deleted already' } },
    },
  },
} as const satisfies VerbTable<State>;
