import fc from 'fast-check';
import { expect, test } from 'vitest';
import { plainCopy } from '../../store/plain-copy.ts';

/** Every object and array within the value. */
function partsOf(it: unknown): object[] {
  if (typeof it !== 'object' || it === null) return [];
  return [it, ...Object.values(it).flatMap(partsOf)];
}

test('a copy equals what structuredClone makes, and shares no part with the original', () => {
  fc.assert(
    fc.property(fc.jsonValue(), (original) => {
      const copy = plainCopy<unknown>(original);
      expect(copy).toStrictEqual(structuredClone(original));
      const parts = new Set(partsOf(original));
      expect(partsOf(copy).filter((part) => parts.has(part))).toEqual([]);
    }),
  );
});

test('a field named __proto__ stays a field', () => {
  const original: unknown = JSON.parse('{"a": {"__proto__": {"polluted": true}}}');
  const copy = plainCopy(original) as { a: object };
  expect(JSON.stringify(copy)).toBe(JSON.stringify(original));
  expect(Object.getPrototypeOf(copy.a)).toBe(Object.prototype);
});

test('a field that is undefined stays a field', () => {
  expect(Object.keys(plainCopy({ a: undefined }))).toEqual(['a']);
});

test('a copy of what is frozen may be changed', () => {
  const original = Object.freeze({ list: Object.freeze([1]) });
  const copy = plainCopy(original) as { list: number[] };
  copy.list.push(2);
  expect(copy).toEqual({ list: [1, 2] });
  expect(original.list).toEqual([1]);
});
