import { expect, test } from 'vitest';
import { openEnd } from '../../cli/settled.ts';

const open = (type: string, reason: string, message: string) => ({
  type,
  status: 'true',
  reason,
  message,
  last_transition_at: '2030-01-01T00:00:00.000Z',
});

test.each([
  ['is settled', [open('Ready', 'Running', 'Every instance is ready')], undefined],
  ['waits', [open('Reconciling', 'Waiting', 'its server to answer')], 'Waits for its server to answer'],
  [
    'failed and is tried again',
    [open('Reconciling', 'Retrying', 'Internal error: the log of the control plane has the cause')],
    'Tries again after a failure: Internal error: the log of the control plane has the cause',
  ],
  ['stalled', [open('Stalled', 'TooLarge', 'It is too large')], 'Stalled: It is too large'],
])('an object that %s says so in a sentence', (_, conditions, expected) => {
  expect(openEnd({ id: 'a', conditions, generation: 1, observed_generation: 1 })).toBe(expected);
});
