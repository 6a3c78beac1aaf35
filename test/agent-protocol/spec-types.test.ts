import { expect, it } from 'vitest';
import { WireAssignment } from '../../agent-protocol/assignment.ts';
import { kinds } from '../../store/kinds/kinds.ts';

it('what the store can want on a server is what an agent understands', () => {
  const typesOf = (options: readonly { shape: { type: { value: string } } }[]) =>
    options.map(({ shape }) => shape.type.value).toSorted();
  const place = 'Add the type to the spec of WireAssignment in agent-protocol/assignment.ts';
  expect(typesOf(WireAssignment.shape.spec.options), place).toEqual(
    typesOf(kinds.assignment.desired.shape.spec.options),
  );
});
