import { describe, expect, it } from 'vitest';
import { definitionOf } from '../../store/definition.ts';
import { kinds } from '../../store/kinds/kinds.ts';
import type { KindName } from '../../store/kinds/kinds.ts';
import { kindsIn } from '../../store/objects-in.ts';

const all = Object.keys(kinds) as KindName[];

describe.each(['server', 'environment'] as const)('what is in a %s', (place) => {
  const within = all.filter((kind) => `${place}_id` in kinds[kind].desired.shape);

  it.each(within)('counts %s, or the object that it goes with', (kind) => {
    const { owners } = definitionOf(kind);
    const remedy = `Add populates: { ${place}: … } and an index ${place} to the definition of ${kind}, or a blocking owner`;
    expect(kindsIn(place).includes(kind) || owners !== undefined, remedy).toBe(true);
  });
});

it('a server holds applications, and an environment does, too', () => {
  expect(kindsIn('server')).toEqual(['application']);
  expect(kindsIn('environment')).toEqual(['application']);
});
