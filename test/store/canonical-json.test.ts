import { expect, it } from 'vitest';
import { canonicalJson } from '../../store/canonical-json.ts';

it('a value has one canonical form, whatever the order of its names, and it is its JSON', () => {
  const value = { b: [1, { z: null, y: 'é"\n' }, [], true], a: { d: 0.5, c: {} }, '': '', 'a"': -0 };
  const shuffled = { 'a"': -0, '': '', a: { c: {}, d: 0.5 }, b: [1, { y: 'é"\n', z: null }, [], true] };
  expect(canonicalJson(shuffled)).toBe(canonicalJson(value));
  expect(canonicalJson(value)).toBe('{"":"","a":{"c":{},"d":0.5},"a\\"":0,"b":[1,{"y":"é\\"\\n","z":null},[],true]}');
  expect(canonicalJson({ a: undefined, b: [undefined] })).toBe(JSON.stringify({ a: undefined, b: [undefined] }));
  expect(canonicalJson(undefined)).toBe('null');
});
