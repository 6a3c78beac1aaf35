import { expect, test } from 'vitest';
import { parseCpus, parseMemory } from '../../../store/kinds/quantity.ts';

test.each([
  ['512m', 512 * 1024 ** 2],
  ['1.5g', 1.5 * 1024 ** 3],
  ['6m', 6 * 1024 ** 2],
  ['6144k', 6 * 1024 ** 2],
  ['6291456b', 6 * 1024 ** 2],
])('%s of memory are %i bytes', (text, bytes) => {
  expect(parseMemory(text)).toEqual({ bytes });
});

test.each([
  ['5.9m', 'Must be at least 6m'],
  ['0g', 'Must be at least 6m'],
  ['512', 'Must be a size such as 512m or 1.5g'],
  ['1t', 'Must be a size such as 512m or 1.5g'],
  ['1e3m', 'Must be a size such as 512m or 1.5g'],
  ['', 'Must be a size such as 512m or 1.5g'],
])('"%s" is no memory', (text, fault) => {
  expect(parseMemory(text)).toEqual({ fault });
});

test.each([
  ['0.01', 10_000_000],
  ['0.5', 500_000_000],
  ['256', 256_000_000_000],
  [String(1 / 3), 333_333_333],
])('%s CPUs are %i billionths', (text, nanoCpus) => {
  expect(parseCpus(text)).toEqual({ nanoCpus });
});

test.each([
  ['0.009', 'Must be 0.01 to 256'],
  ['257', 'Must be 0.01 to 256'],
  ['1e-7', 'Must be a number of CPUs such as 0.5'],
  ['', 'Must be a number of CPUs such as 0.5'],
])('"%s" are no CPUs', (text, fault) => {
  expect(parseCpus(text)).toEqual({ fault });
});
