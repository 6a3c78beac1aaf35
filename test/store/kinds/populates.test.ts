import { expect, test } from 'vitest';
import { definitionOf } from '../../../store/definition.ts';
import { isKindName, kinds, type KindName } from '../../../store/kinds/kinds.ts';

const all = Object.keys(kinds) as KindName[]; // the keys of `kinds` are the names

/** Fields that name a place, and the kind of the place. */
const places = { server_id: 'server', environment_id: 'environment' } as const;

/** Kinds with such a field that are not in the place themselves, and why. */
const elsewhere: Partial<Record<KindName, string>> = {
  deployment: 'its application is in both',
  run: 'its application is in both',
  function_version: 'its function is in both',
  assignment: 'its workload is in both',
  operation: 'it acts on a server and leaves nothing there',
};

test.each(all)('%s is found by what it populates', (kind) => {
  const { populates = {}, indexes = {} } = definitionOf(kind);
  for (const [place, index] of Object.entries(populates)) {
    expect(isKindName(place), `${kind} populates what is no kind: ${place}`).toBe(true);
    expect(Object.hasOwn(indexes, index), `${kind} has no index ${index}, by which its ${place} finds it`).toBe(true);
  }
});

test.each(all.filter((kind) => elsewhere[kind] === undefined))('%s populates the places that it names', (kind) => {
  const { populates } = definitionOf(kind);
  for (const [field, place] of Object.entries(places))
    if (Object.hasOwn(kinds[kind].desired.shape, field))
      expect(
        populates?.[place],
        `${kind} has ${field}: declare in \`populates\` that a ${place} holds it`,
      ).toBeDefined();
});
