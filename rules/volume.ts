import { beingDeleted, byStatus } from './verb-table.ts';
import type { Cell, VerbTable } from './verb-table.ts';

const states = ['pending', 'available', 'bound', 'error', 'deleting'] as const;
type State = (typeof states)[number];

const deleting = beingDeleted('Volume');
const always: Record<State, Cell> = { pending: 'yes', available: 'yes', bound: 'yes', error: 'yes', deleting };

export const volumeVerbs = {
  states,
  stateOf: byStatus(states),
  verbs: {
    update: { label: 'Change', route: 'PUT /volumes/:id', in: always },
    backup: {
      label: 'Back up now',
      route: 'POST /volumes/:id/backup',
      in: {
        ...always,
        pending: { no: 'Cannot back up the volume as its server has not made it yet: wait until it is available' },
        error: { no: 'Cannot back up the volume as it is in error: see its conditions' },
      },
    },
    bind: { label: 'Mount in an application', route: 'POST /volumes/:id/bind', in: always },
    unbind: { label: 'Take from its application', route: 'POST /volumes/:id/unbind', in: always },
    delete: {
      label: 'Delete',
      route: 'DELETE /volumes/:id',
      in: { ...always, deleting: { idle: 'The volume is being deleted already' } },
    },
  },
} as const satisfies VerbTable<State>;
