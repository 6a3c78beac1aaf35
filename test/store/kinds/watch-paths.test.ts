import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { maxWatchPathsChars, parseWatchPaths, watchPathLimits } from '../../../store/kinds/watch-paths.ts';

describe('watch paths', () => {
  test.each([
    ['', []],
    [' \n , ,\r\n', []],
    ['src/**', [['src/**', false]]],
    [
      'src/**,!src/**/*.md',
      [
        ['src/**', false],
        ['src/**/*.md', true],
      ],
    ],
    [
      'a\r\n b/? \n!c',
      [
        ['a', false],
        ['b/?', false],
        ['c', true],
      ],
    ],
    [
      '/src/**,!/docs/**',
      [
        ['src/**', false],
        ['docs/**', true],
      ],
    ],
    ['app/[id]/{x}.ts', [['app/[id]/{x}.ts', false]]],
    ['**/a b/**', [['**/a b/**', false]]],
  ])('%j are read', (text, expected) => {
    expect(parseWatchPaths(text)).toEqual({ patterns: expected.map(([glob, excludes]) => ({ glob, excludes })) });
  });

  test.each([
    ['!', 'from the root'],
    ['/', 'from the root'],
    ['//a', 'from the root'],
    ['src/', 'from the root'],
    ['a//b', 'from the root'],
    ['./a', 'from the root'],
    ['a/../b', 'from the root'],
    ['a\u0007b', 'control characters: a\uFFFDb'],
    ['a\u202eb', 'control characters'],
    ['\ud800', 'control characters'],
    ['**/**/**', 'at most 2 **'],
    ['x'.repeat(257), 'at most 256 bytes'],
    ['ü'.repeat(129), 'at most 256 bytes'],
    [Array.from({ length: 33 }, (_, n) => `p${n}`).join(), 'at most 32 patterns, not 33'],
    ['\n'.repeat(maxWatchPathsChars + 1), 'characters'],
  ])('SEC-08 %j are refused', (text, rule) => {
    expect(parseWatchPaths(text)).toEqual({ fault: expect.stringContaining(rule) });
  });

  test('may use all of their limits at once', () => {
    const longest = `!**/**${'x'.repeat(watchPathLimits.bytes - 6)}`;
    const text = Array.from({ length: watchPathLimits.patterns }, () => longest).join('\r\n');
    expect(parseWatchPaths(text)).toHaveProperty('patterns.length', watchPathLimits.patterns);
  });

  test('are patterns within the limits or a fault, whatever the text', () => {
    const Text = fc.string({ unit: fc.constantFrom('a', '*', '?', '!', '/', '.', ',', '\n', ' ', '\u0000', 'ü') });
    fc.assert(
      fc.property(Text, (text) => {
        const parsed = parseWatchPaths(text);
        if ('fault' in parsed) expect(parsed.fault).not.toMatch(/\p{Cc}/u);
        for (const { glob } of 'fault' in parsed ? [] : parsed.patterns) {
          expect(glob).not.toMatch(/^$|[\n,]|\p{Cc}/u);
          expect(glob.split('**').length - 1).toBeLessThanOrEqual(watchPathLimits.doubleStars);
        }
      }),
    );
  });
});
