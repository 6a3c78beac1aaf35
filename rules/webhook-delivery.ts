import { byStatus } from './verb-table.ts';
import type { VerbTable } from './verb-table.ts';

const states = ['pending', 'decided'] as const;
type State = (typeof states)[number];

export const webhookDeliveryVerbs = {
  states,
  stateOf: byStatus(states),
  verbs: {
    replay: {
      label: 'Decide again',
      route: 'POST /webhooks/deliveries/:id/replay',
      in: { pending: { no: 'The delivery is being decided: wait for that' }, decided: 'yes' },
    },
  },
} as const satisfies VerbTable<State>;
