import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { isWatched } from '../../../controllers/operation/watch-paths.ts';

const watches = (paths: string, ...files: string[]): boolean => isWatched(paths, files).watched;

describe('watch paths', () => {
  test.each([
    ['src/**', ['src/a', 'src/b/c.ts', 'src/.env'], ['src', 'a/src/b', 'srcs/a']],
    ['src/*', ['src/a', 'src/.a'], ['src/a/b', 'src']],
    ['*.md', ['README.md', '.md'], ['docs/a.md', 'a.mdx']],
    ['**/*.md', ['README.md', 'docs/a.md', 'a/b/c.md'], ['a.mdx', 'a.md/b']],
    ['a/**/z', ['a/z', 'a/b/z', 'a/b/c/z'], ['az', 'a/bz', 'a/z/b', 'b/a/z']],
    ['a/**/b/**/c', ['a/b/c', 'a/x/b/y/z/c', 'a/b/b/c'], ['a/c', 'a/xb/c']],
    ['a**b', ['ab', 'axb', 'a/x/b'], ['a/x/bc', 'ba']],
    ['**', ['a', 'a/b'], []],
    ['te?t', ['test', 'te😀t'], ['tet', 'te/t', 'teest']],
    ['*/x*', ['a/x', 'b/xyz'], ['x', 'a/b/x']],
    ['a*b*c', ['abc', 'aXbYc', 'abbcc'], ['ab/c', 'acb']],
    ['app/[id]/{x}+(y)|$.ts', ['app/[id]/{x}+(y)|$.ts'], ['app/i/x.ts']],
    ['Dockerfile, src/**', ['Dockerfile', 'src/a'], ['docs/a']],
    ['src/**\n!src/**/*.md', ['src/a.ts', 'src/a/b.ts'], ['src/a.md', 'src/a/b.md', 'docs/x']],
    ['!src/**/*.md\nsrc/**', ['src/a.ts'], ['src/a.md']],
    ['!docs/**', ['a', 'src/a'], ['docs/a']],
    ['', ['a', 'a/b'], []],
    [' , \n', ['a'], []],
    ['of//another/grammar', ['a'], []],
  ])('%j', (paths, watched, others) => {
    for (const file of watched) expect(watches(paths, file), file).toBe(true);
    for (const file of others) expect(watches(paths, file), file).toBe(false);
  });

  test('are met by one file of many', () => {
    expect(watches('src/**', 'docs/a', 'README', 'src/a')).toBe(true);
    expect(watches('src/**', 'docs/a', 'README')).toBe(false);
    expect(watches('src/**')).toBe(false);
  });

  test('mean what the regular expression of their meaning says', () => {
    const Pattern = fc.string({
      unit: fc.constantFrom('a', 'b', '*', '**', '?', '/', '**/'),
      minLength: 1,
      maxLength: 8,
    });
    const File = fc.string({ unit: fc.constantFrom('a', 'b', 'c', '/'), minLength: 1, maxLength: 12 });
    fc.assert(
      fc.property(Pattern, File, (pattern, file) => {
        fc.pre(!pattern.split('/').includes('') && pattern.split('**').length <= 3 && !pattern.includes('***'));
        const meaning = pattern
          .replaceAll(/(?<=^|\/)\*\*\//g, '<climb>')
          .replaceAll('**', '<deep>')
          .replaceAll('*', '[^/]*')
          .replaceAll('?', '[^/]')
          .replaceAll('<climb>', '(.*/)?')
          .replaceAll('<deep>', '.*');
        expect(watches(pattern, file)).toBe(new RegExp(`^${meaning}$`).test(file));
      }),
      { numRuns: 3000 },
    );
  });

  test('SEC-08 cost at most the product of the lengths, whatever they are', () => {
    const Pattern = fc.string({ unit: fc.constantFrom('a', '*', '?', '**/', '/'), minLength: 1, maxLength: 200 });
    const File = fc.string({ unit: fc.constantFrom('a', '/'), minLength: 1, maxLength: 400 });
    fc.assert(
      fc.property(Pattern, File, (pattern, file) => {
        expect(isWatched(pattern, [file]).steps).toBeLessThanOrEqual(pattern.length * file.length);
      }),
    );
    const slow = `${'*a'.repeat(126)}*b`;
    const steps = [1000, 2000, 4000].map((length) => isWatched(slow, ['a'.repeat(length)]).steps);
    expect(steps).toEqual([1, 2, 4].map((times) => times * slow.length * 1000));
    expect(watches(slow, 'a'.repeat(4000))).toBe(false);
  });

  test('SEC-08 that would take too long together count as met', () => {
    const slow = Array.from({ length: 32 }, (_, n) => `**/**${'*a'.repeat(124)}${n % 10}`).join('\n');
    const files = Array.from({ length: 16 }, () => 'a'.repeat(4096));
    const { watched, steps } = isWatched(slow, files);
    expect(watched).toBe(true);
    expect(steps).toBeLessThanOrEqual(20_000_000);
  });
});
