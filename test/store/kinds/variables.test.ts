import { expect, it } from 'vitest';
import { faultOfName, faultOfValue, valuesByName, variableLimits } from '../../../store/kinds/variables.ts';

it.each([
  'LOG_LEVEL',
  'discovery.type',
  'MY-KEY',
  '1A',
  'spring.datasource.url',
  'größe',
  'a:b/c',
  '$x',
  'x'.repeat(256),
])('a variable may have the name %s', (name) => {
  expect(faultOfName(name)).toBeUndefined();
  expect(valuesByName('variables').safeParse({ [name]: '' }).success).toBe(true);
});

it.each(['', 'a b', 'a=b', 'a\0', 'a\n', 'a\tb', '\u00a0', 'a\u200bb', 'a\ud800', 'x'.repeat(257)])(
  'a variable may not have the name %j',
  (name) => {
    expect(faultOfName(name)).toContain('1 to 256 printable characters');
    expect(valuesByName('variables').safeParse({ [name]: '' }).success).toBe(false);
  },
);

it('a value is any text without NUL, up to its size in bytes', () => {
  expect(faultOfValue('-----BEGIN KEY-----\nabc\n')).toBeUndefined();
  expect(faultOfValue('\u200b\u001b\r')).toBeUndefined();
  expect(faultOfValue('ü'.repeat(16 * 1024))).toBeUndefined();
  expect(faultOfValue(`ü${'ü'.repeat(16 * 1024)}`)).toBe('must be at most 32 KiB');
  expect(faultOfValue('a\0')).toBe('must be text without NUL');
  expect(faultOfValue('\ud800')).toBe('must be text without NUL');
});

it('there are at most so many', () => {
  const some = (count: number) => Object.fromEntries(Array.from({ length: count }, (_, n) => [`A${n}`, '']));
  expect(valuesByName('arguments').safeParse(some(variableLimits.count)).success).toBe(true);
  expect(valuesByName('arguments').safeParse(some(variableLimits.count + 1)).error?.issues[0]?.message).toBe(
    'Must have at most 500 arguments',
  );
});
