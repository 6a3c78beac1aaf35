import { beingDeleted, byStatus } from './verb-table.ts';
import type { Cell, VerbTable } from './verb-table.ts';

const states = ['active', 'provisioning', 'error', 'offline', 'deleting'] as const;
type State = (typeof states)[number];

const always: Record<State, Cell> = {
  active: 'yes',
  provisioning: 'yes',
  error: 'yes',
  offline: 'yes',
  deleting: beingDeleted('Server'),
};

/** Why the machine of a server with an agent is not provisioned. */
export const hasAgent = 'The server has an agent already: its machine is not provisioned again';

export const serverVerbs = {
  states,
  stateOf: byStatus(states),
  verbs: {
    update: { label: 'Change', route: 'PUT /servers/:id', in: always },
    join_token: { label: 'Make a join token', route: 'POST /servers/:id/join-token', in: always },
    ping: { label: 'Ping', route: 'POST /servers/:id/ping', in: always },
    terminal: { label: 'Open a terminal', route: 'POST /servers/:id/terminal', in: always },
    validate: { label: 'Validate', route: 'POST /servers/:id/validate', in: always },
    provision: {
      label: 'Provision',
      route: 'POST /servers/:id/provision',
      in: {
        ...always,
        active: { no: hasAgent },
        provisioning: { idle: 'Its machine is being provisioned already, or needs no SSH for it' },
        offline: { no: hasAgent },
      },
    },
    trust_host_key: { label: 'Trust a host key', route: 'POST /servers/:id/trust-host-key', in: always },
    heal: { label: 'Heal', route: 'POST /servers/:id/heal', in: always },
    update_agent: { label: 'Update the agent', route: 'POST /servers/:id/update-agent', in: always },
    adopt: { label: 'Plan moving in', route: 'POST /servers/:id/adopt', in: always },
    confirm_removals: { label: 'Confirm removals', route: 'POST /servers/:id/confirm-removals', in: always },
    delete: {
      label: 'Delete',
      route: 'DELETE /servers/:id',
      in: { ...always, deleting: { idle: 'The server is being deleted already' } },
    },
  },
} as const satisfies VerbTable<State>;
