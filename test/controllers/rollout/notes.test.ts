import { expect, test } from 'vitest';
import { notesOf } from '../../../controllers/rollout/notes.ts';
import type { Assignment } from '../../../controllers/rollout/slots.ts';
import type { ObservedOf } from '../../../store/kinds/kinds.ts';
import { object } from '../../harness/objects.ts';
import { desiredState } from '../../harness/states.ts';

type Note = NonNullable<ObservedOf<'assignment'>['notes']>[number];

function instance(notes: readonly Note[] | undefined, run: 'running' | 'stopped' = 'running'): Assignment {
  const observed = { phase: 'running' as const, ready: true, stable: true, restarts: 0, crash_loop: false };
  return object('assignment', desiredState('assignment', { run }), {
    observed: { ...observed, ...(notes !== undefined && { notes: [...notes] }) },
  });
}

const note = (type: string, message: string): Note => ({ type, reason: 'Seen', message });

test('notes of instances become conditions, one of each type', () => {
  const of = [instance(undefined), instance([note('A', 'first'), note('B', 'b')]), instance([note('A', 'second')])];
  expect(notesOf(of)).toEqual([
    { type: 'A', status: 'true', reason: 'Seen', message: 'first' },
    { type: 'B', status: 'true', reason: 'Seen', message: 'b' },
  ]);
});

test('notes of instances that are to end, or were reported before the present record, are none', () => {
  const noted = instance([note('A', 'first')]);
  expect(notesOf([instance([note('A', 'first')], 'stopped')])).toEqual([]);
  expect(notesOf([{ ...noted, meta: { ...noted.meta, generation: 2 } }])).toEqual([]);
});
