import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { ignoreFile, type IgnoreEntry, type IgnoreFile } from '../../../agent/tasks/ignore-file.ts';

async function entryAt(file: IgnoreFile, path: string): Promise<IgnoreEntry> {
  let folder = file.top;
  const parts = path.split('/');
  for (const name of parts.slice(0, -1)) folder = (await folder.entry(name)).below();
  return folder.entry(parts.at(-1) ?? '');
}

const ignores = async (text: string, path: string): Promise<boolean> => (await entryAt(ignoreFile(text), path)).ignored;

describe('.dockerignore', () => {
  test.each([
    ['node_modules', ['node_modules', 'node_modules/a/b'], ['src/node_modules', 'node_modules2']],
    ['/dist/', ['dist', 'dist/x'], ['src/dist']],
    ['*.log', ['a.log', '.log'], ['logs/a.log', 'a.log2']],
    ['**/*.log', ['a.log', 'x/y/a.log'], ['a.logs']],
    ['a/**/z', ['a/z', 'a/b/z', 'a/b/c/z', 'a/b/c/z/deeper'], ['a', 'z', 'b/a/z']],
    ['a/**', ['a/b', 'a/b/c'], ['a', 'b']],
    ['**/a/**', ['a/b', 'x/a/b'], ['a', 'x/a', 'b']],
    ['**', ['a', 'a/b'], []],
    ['**/', ['a', 'a/b'], []],
    ['a**b', ['ab', 'a/b', 'ax/y/b'], ['axb', 'a', 'a/bc']],
    ['**b', ['b', 'x/b', 'x/y/b'], ['ab', 'x/ab']],
    ['a**', ['a', 'ab', 'ab/c', 'a/b'], ['ba']],
    ['**/**/**/b', ['b', 'x/b'], ['ab']],
    ['te?t', ['test', 'text', 'test/x', 'te😀t'], ['tet', 'teest']],
    ['*/temp*', ['a/temp', 'a/temporary.txt'], ['temp', 'a/b/temp']],
    ['*\n!README.md', ['a', 'docs/README.md'], ['README.md']],
    ['*.md\n!README*.md\nREADME-secret.md', ['a.md', 'README-secret.md'], ['README.md', 'README-2.md']],
    ['docs\n!docs/keep', ['docs', 'docs/a'], ['docs/keep', 'docs/keep/a']],
    ['docs\n! docs/keep\ndocs/keep/but', ['docs/a', 'docs/keep/but'], ['docs/keep/a']],
    ['\uFEFF# comment\n\n  spaced  ', ['spaced'], ['# comment', 'x']],
    [' # no comment', ['# no comment'], ['x']],
    ['[ab]c', ['ac', 'bc'], ['cc', '[ab]c', 'abc']],
    ['[^a-c\\]]', ['d', '['], ['a', 'b', ']']],
    ['\\*', ['*'], ['a']],
    ['a/./b//../c', ['a/c'], ['a/b']],
    ['../x\n.\n/', [], ['x', 'a']],
    ['a+b(c)|d$', ['a+b(c)|d$'], ['aab(c)', 'd']],
  ])('%j', async (text, ignored, kept) => {
    for (const path of ignored) expect(await ignores(text, path), path).toBe(true);
    for (const path of kept) expect(await ignores(text, path), path).toBe(false);
  });

  test('closes a folder below which no exception can match', async () => {
    const text = 'a\nb\n!b/c/keep\n!**/deep';
    expect((await entryAt(ignoreFile(text), 'a')).isClosed).toBe(false);
    expect((await entryAt(ignoreFile('a\nb\n!b/c/keep'), 'a')).isClosed).toBe(true);
    expect((await entryAt(ignoreFile('a\nb\n!b/c/keep'), 'b')).isClosed).toBe(false);
    expect((await entryAt(ignoreFile('a\nb\n!b/c/keep'), 'b/x')).isClosed).toBe(true);
    expect((await entryAt(ignoreFile('**\n!**/deep\n**'), 'x')).isClosed).toBe(true);
  });

  test('matches a segment as the regular expression of its meaning does', async () => {
    const Pattern = fc.string({ unit: fc.constantFrom('a', 'b', '*', '?'), minLength: 1, maxLength: 8 });
    const Text = fc.string({ unit: fc.constantFrom('a', 'b', 'c'), minLength: 1, maxLength: 10 });
    await fc.assert(
      fc.asyncProperty(Pattern, Text, async (pattern, text) => {
        fc.pre(!pattern.includes('**'));
        const meaning = new RegExp(`^${pattern.replaceAll('*', '[^/]*').replaceAll('?', '[^/]')}$`);
        expect(await ignores(pattern, text)).toBe(meaning.test(text));
      }),
      { numRuns: 1000 },
    );
  });

  test('matches a path as the regular expression does that Docker makes of a pattern', async () => {
    const Pattern = fc.string({
      unit: fc.constantFrom('a', 'b', '*', '**', '/', '/**/', '?'),
      minLength: 1,
      maxLength: 7,
    });
    const Path = fc.array(fc.constantFrom('a', 'b', 'ab', 'aab'), { minLength: 1, maxLength: 4 });
    let matched = 0;
    await fc.assert(
      fc.asyncProperty(Pattern, Path, async (pattern, parts) => {
        const clean = pattern.replaceAll(/\/+/g, '/').replace(/^\/|\/$/g, '');
        fc.pre(clean !== '');
        const meaning = dockerMeaning(clean);
        const path = parts.join('/');
        const expected = parts.some((_, index) => meaning.test(parts.slice(0, index + 1).join('/')));
        if (expected) matched += 1;
        expect(await ignores(pattern, path), `${pattern} ${path}`).toBe(expected);
      }),
      { numRuns: 2000 },
    );
    expect(matched).toBeGreaterThan(100);
  });

  test('SEC-08 takes no longer for a pattern that is made to', async () => {
    const segment = `${'*a'.repeat(100)}b`;
    expect(await ignores(segment, 'a'.repeat(4000))).toBe(false);
    const segments = Array.from({ length: 50 }, () => '**/a').join('/');
    expect(await ignores(`${segments}/b`, Array.from({ length: 200 }, () => 'a').join('/'))).toBe(false);
  });

  test('SEC-08 gives the event loop its turns while many costly patterns are followed into a deep folder', async () => {
    const exception = `!${'**/a/'.repeat(48)}z`;
    const file = ignoreFile(['**/f*', ...Array.from({ length: 990 }, () => exception)].join('\n'));
    let turns = 0;
    let turn = setImmediate(function again() {
      turns += 1;
      turn = setImmediate(again);
    });
    const path = Array.from({ length: 99 }, () => 'a').join('/');
    expect((await entryAt(file, `${path}/file`)).ignored).toBe(true);
    clearImmediate(turn);
    expect(file.steps).toBeLessThan(4 * 990 * 100 * 100 * 9);
    expect(turns).toBeGreaterThan(file.steps / 1_000_000);
  });

  test('SEC-08 ends with a reason where all entries together take too many steps', async () => {
    const file = ignoreFile('**/*a*a*a*a*b', 10_000);
    const all = async (): Promise<void> => {
      for (let nth = 0; nth < 1000; nth += 1) await file.top.entry('a'.repeat(200));
    };
    await expect(all()).rejects.toThrow('.dockerignore takes too long for the files of this repository: use fewer');
  });

  test.each([
    ['more than 1000 patterns', 'a\n'.repeat(1001)],
    ['above 256 characters', 'a'.repeat(257)],
    ['a ! without a pattern', '!'],
    ['class that cannot be read', 'a[b'],
    ['class that cannot be read', 'a[]b'],
    ['class that cannot be read', 'a[b-]'],
    ['too many ** within segments', 'a**a**a**a**a**a**a'],
  ])('is refused for %s', (why, text) => {
    expect(() => ignoreFile(text)).toThrow(why);
    expect(() => ignoreFile(text)).toThrow(RangeError);
  });
});

/** As the engine's own matcher makes it. */
function dockerMeaning(pattern: string): RegExp {
  let text = '';
  for (let at = 0; at < pattern.length; at += 1) {
    if (pattern.startsWith('**', at)) {
      at += 1;
      if (pattern[at + 1] === '/') at += 1;
      text += at + 1 >= pattern.length ? '.*' : '(.*/)?';
    } else text += { '*': '[^/]*', '?': '[^/]' }[pattern[at] ?? ''] ?? pattern[at];
  }
  return new RegExp(`^${text}$`);
}
