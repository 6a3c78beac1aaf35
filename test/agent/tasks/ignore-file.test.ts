import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { ignoreFile } from '../../../agent/tasks/ignore-file.ts';

describe('.dockerignore', () => {
  test.each([
    ['node_modules', ['node_modules', 'node_modules/a/b'], ['src/node_modules', 'node_modules2']],
    ['/dist/', ['dist', 'dist/x'], ['src/dist']],
    ['*.log', ['a.log', '.log'], ['logs/a.log', 'a.log2']],
    ['**/*.log', ['a.log', 'x/y/a.log'], ['a.logs']],
    ['a/**/z', ['a/z', 'a/b/z', 'a/b/c/z', 'a/b/c/z/deeper'], ['a', 'z', 'b/a/z']],
    ['**', ['a', 'a/b'], []],
    ['te?t', ['test', 'text', 'test/x'], ['tet', 'teest']],
    ['*/temp*', ['a/temp', 'a/temporary.txt'], ['temp', 'a/b/temp']],
    ['*\n!README.md', ['a', 'docs/README.md'], ['README.md']],
    ['*.md\n!README*.md\nREADME-secret.md', ['a.md', 'README-secret.md'], ['README.md', 'README-2.md']],
    ['docs\n!docs/keep', ['docs', 'docs/a'], ['docs/keep', 'docs/keep/a']],
    ['# comment\n\n  spaced  ', ['spaced'], ['# comment', 'x']],
    ['[ab]', [], ['a', 'b', '[ab]']],
    ['../x\n.', [], ['x', 'a']],
    ['a+b(c)|d$', ['a+b(c)|d$'], ['aab(c)', 'd']],
  ])('%j', (text, ignored, kept) => {
    const file = ignoreFile(text);
    for (const path of ignored) expect(file.ignores(path), path).toBe(true);
    for (const path of kept) expect(file.ignores(path), path).toBe(false);
  });

  test('matches a segment as the regular expression of its meaning does', () => {
    const Pattern = fc.string({ unit: fc.constantFrom('a', 'b', '*', '?'), minLength: 1, maxLength: 8 });
    const Text = fc.string({ unit: fc.constantFrom('a', 'b', 'c'), minLength: 1, maxLength: 10 });
    fc.assert(
      fc.property(Pattern, Text, (pattern, text) => {
        fc.pre(pattern !== '**' && !pattern.startsWith('!'));
        const meaning = new RegExp(`^${pattern.replaceAll('*', '[^/]*').replaceAll('?', '[^/]')}$`);
        expect(ignoreFile(pattern).ignores(text)).toBe(meaning.test(text));
      }),
      { numRuns: 1000 },
    );
  });

  test('SEC-08 takes no longer for a pattern that is made to', () => {
    const segment = `${'*a'.repeat(100)}b`;
    expect(ignoreFile(segment).ignores('a'.repeat(4000))).toBe(false);
    const segments = Array.from({ length: 50 }, () => '**/a').join('/');
    expect(ignoreFile(`${segments}/b`).ignores(Array.from({ length: 200 }, () => 'a').join('/'))).toBe(false);
  });

  test('that is too large is refused', () => {
    expect(() => ignoreFile('a\n'.repeat(1001))).toThrow(RangeError);
    expect(() => ignoreFile('a'.repeat(257))).toThrow(RangeError);
  });
});
