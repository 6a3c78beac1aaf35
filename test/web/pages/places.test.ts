import { expect, test } from 'vitest';
import { byRank, keepingPlaces, placesOf } from '../../../web/pages/project/places.ts';

const rows = (...ids: string[]) => ids.map((id) => ({ it: { id } }));
const idsOf = (all: readonly { it: { id: string } }[]) => all.map(({ it }) => it.id).join('');

test('rows come by their rank, and those of one rank stay in their order', () => {
  expect(byRank(['b2', 'a1', 'c2', 'd0', 'e1'], (row) => Number(row[1]))).toEqual(['d0', 'a1', 'e1', 'b2', 'c2']);
  expect(byRank([], () => 0)).toEqual([]);
});

test('rows keep their places while others change their rank, come and go', () => {
  const places = placesOf(rows('a', 'b', 'c', 'd'));
  expect(idsOf(keepingPlaces(rows('d', 'c', 'b', 'a'), places))).toBe('abcd');
  expect(idsOf(keepingPlaces(rows('y', 'd', 'x', 'a'), places))).toBe('adyx');
  expect(idsOf(keepingPlaces(rows('b', 'a'), new Map()))).toBe('ba');
});
