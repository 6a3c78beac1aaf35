import { expect, test } from 'vitest';
import { brokenLaws, derive, retrying, stall } from '../../../controllers/runtime/conditions.ts';
import type { Because, Next } from '../../../controllers/runtime/controller.ts';
import type { Condition, ConditionInput } from '../../../store/resource.ts';

const now = new Date('2030-01-01T00:00:00.000Z');
const before = '2029-01-01T00:00:00.000Z';
const stamp = { generation: 3, now };
const ready: ConditionInput = { type: 'Ready', status: 'true', reason: 'Active', message: 'Ready for use' };
const unready: ConditionInput = { ...ready, status: 'false', reason: 'Starting' };
const old = (input: ConditionInput): Condition => ({ ...input, observedGeneration: 2, changedAt: before });
const shape = (conditions: Condition[]): string[] =>
  conditions.map(({ type, status, reason }) => `${type}=${status}/${reason}`);

const derivations: { next: Next; given: ConditionInput[]; expected: string[] }[] = [
  { next: { settled: true }, given: [ready], expected: ['Ready=true/Active'] },
  { next: { settled: true }, given: [], expected: ['Ready=unknown/Unreported'] },
  {
    next: { again: 1000, because: 'the next look to come' },
    given: [unready],
    expected: ['Ready=false/Starting', 'Reconciling=true/Progressing'],
  },
  { next: { again: 1000, because: 'the next look to come' }, given: [ready], expected: ['Ready=true/Active'] },
  {
    next: { waitingFor: [], because: 'its instances to start' },
    given: [ready],
    expected: ['Ready=true/Active', 'Reconciling=true/Waiting'],
  },
  {
    next: { waitingFor: [], because: 'its server to answer' },
    given: [unready, { type: 'Reconciling', status: 'true', reason: 'WaitingForServer', message: 'Server is away' }],
    expected: ['Ready=false/Starting', 'Reconciling=true/WaitingForServer'],
  },
  {
    next: { stalled: { reason: 'BadImage', message: 'Image does not exist' } },
    given: [unready, { ...ready, type: 'BackedUp' }],
    expected: ['BackedUp=true/Active', 'Ready=false/Starting', 'Stalled=true/BadImage'],
  },
];

test.for(derivations)('$expected follow from $next', ({ next, given, expected }) => {
  expect(shape(derive([], given, next, stamp))).toEqual(expected);
});

test('time and generation are stamped; the time stays while status and reason do', () => {
  const same = derive([old(ready)], [{ ...ready, message: 'Other words' }], { settled: true }, stamp);
  expect(same).toEqual([{ ...ready, message: 'Other words', observedGeneration: 3, changedAt: before }]);
  const changed = derive([old(unready)], [ready], { settled: true }, stamp);
  expect(changed[0]?.changedAt).toBe(now.toISOString());
});

test('an error keeps what was known and says that it is tried again', () => {
  const shown = retrying([old({ ...ready, type: 'Stalled' }), old(ready)], 'Bucket refused', stamp);
  expect(shape(shown)).toEqual(['Ready=true/Active', 'Reconciling=true/Retrying']);
  expect(shown[0]?.observedGeneration).toBe(2);
});

test('a stall ends what was ready and what was under way', () => {
  const reconciling = { ...ready, type: 'Reconciling' };
  const shown = stall(
    [old(ready), old(reconciling), old({ ...ready, type: 'BackedUp' })],
    'TooLarge',
    'Too large',
    stamp,
  );
  expect(shape(shown)).toEqual(['BackedUp=true/Active', 'Ready=false/TooLarge', 'Stalled=true/TooLarge']);
});

const stalled: Next = { stalled: { reason: 'Broken', message: 'It is broken' } };
const settled: Next = { settled: true };

test.for([
  { law: 'Condition must be present: Ready', given: [], next: settled },
  { law: 'Ready must not be true while Stalled', given: [ready], next: stalled },
  { law: 'Stalled must follow from `next`', given: [unready, { ...ready, type: 'Stalled' }], next: stalled },
  {
    law: 'Reconciling must not be given once nothing is awaited',
    given: [ready, { ...ready, type: 'Reconciling' }],
    next: settled,
  },
  { law: 'Conditions must have distinct types: Ready, Ready', given: [ready, unready], next: settled },
  { law: 'Reason must be CamelCase: Ready has "not ready"', given: [{ ...ready, reason: 'not ready' }], next: settled },
  {
    law: 'Message must hold no time: Ready has "Since 2030-01-01T00:00:00Z"',
    given: [{ ...ready, message: 'Since 2030-01-01T00:00:00Z' }],
    next: settled,
  },
  ...['MailToSend', 'its server', 'Its server to answer', 'its server to answer.'].map((because) => ({
    law: `Reason to go on must read after "waits for", as in "its server to answer": "${because}"`,
    given: [unready],
    next: { again: 1000, because: because as Because }, // as if it were built of parts, which the type does not see
  })),
] satisfies { law: string; given: ConditionInput[]; next: Next }[])(
  'a verdict breaks: $law',
  ({ law, given, next }) => {
    expect(brokenLaws(1, given, next)).toEqual([law]);
  },
);

test('a lawful verdict breaks nothing', () => {
  expect(brokenLaws(1, [ready], settled)).toEqual([]);
  expect(brokenLaws(1, [unready], stalled)).toEqual([]);
});
