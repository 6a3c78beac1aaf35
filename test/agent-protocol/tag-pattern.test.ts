import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { compareTags, matchesTag, newestOf } from '../../agent-protocol/tag-pattern.ts';

it.each<[pattern: string, tag: string, matches: boolean]>([
  ['v1.*', 'v1.2.3', true],
  ['v1.*', 'v1.', true],
  ['v1.*', 'v10.2.3', false],
  ['v?.0.0', 'v1.0.0', true],
  ['v?.0.0', 'v10.0.0', false],
  ['*', 'v1.0.0', true],
  ['*', 'web/v1.0.0', false],
  ['*/v1.*', 'web/v1.0.0', true],
  ['web/?', 'web//', false],
  ['*a*b', 'xaxaxb', true],
  ['*a*b', 'xaxaxbx', false],
  ['v1.0.0', 'v1.0.0', true],
  ['v1.0.0', 'v1x0.0', false],
  ['', 'v1.0.0', false],
])('the pattern %s and the tag %s: %s', (pattern, tag, matches) => {
  expect(matchesTag(pattern, tag)).toBe(matches);
});

it('a pattern of many stars takes no long time', () => {
  expect(matchesTag('*a'.repeat(100), `${'a'.repeat(254)}b`)).toBe(false);
});

describe('the newest tag', () => {
  it.each<[what: string, pattern: string, tags: string[], tag: string | undefined, matching: number]>([
    ['is that of the greatest number', 'v*', ['v1.9.0', 'v1.10.0', 'v1.2.30'], 'v1.10.0', 3],
    ['is of the pattern', 'v1.*', ['v1.0.0', 'v2.0.0', 'v1.0.1'], 'v1.0.1', 2],
    ['is no pre-release', 'v1.*', ['v1.0.0', 'v1.1.0-rc.1'], 'v1.0.0', 2],
    [
      'is a pre-release that the pattern names',
      'v1.*-rc.*',
      ['v1.0.0', 'v1.1.0-rc.2', 'v1.1.0-rc.10'],
      'v1.1.0-rc.10',
      2,
    ],
    ['is no pre-release whose - a star stands for', 'web-*', ['web-1.0.0', 'web-1.1.0-rc.1'], 'web-1.0.0', 2],
    ['is a pre-release behind a name with a -', 'web-*-*', ['web-1.0.0', 'web-1.1.0-rc.1'], 'web-1.1.0-rc.1', 1],
    ['has no version at its beginning alone', 'v*', ['v1', 'v1.2', 'v1.2.3.4', 'v01.2.3', 'v1.2.x'], undefined, 5],
    ['is of the name that is later, of one version', '*', ['1.0.0', 'v1.0.0', 'v1.0.0+b', 'v1.0.0+a'], 'v1.0.0+b', 4],
    [
      'has numbers of any length',
      'v*',
      ['v1.0.99999999999999999999', 'v1.0.100000000000000000000'],
      'v1.0.100000000000000000000',
      2,
    ],
    ['is none where none matches', 'v2.*', ['v1.0.0'], undefined, 0],
  ])('%s', (_what, pattern, tags, tag, matching) => {
    expect(newestOf(pattern, tags)).toEqual({ tag, matching });
    expect(newestOf(pattern, tags.toReversed())).toEqual({ tag, matching });
  });

  it('follows the order of semver.org', () => {
    const ordered = ['-alpha', '-alpha.1', '-alpha.beta', '-beta', '-beta.2', '-beta.11', '-rc.1', ''];
    const tags = ordered.map((pre) => `v1.0.0${pre}`);
    expect(tags.toReversed().toSorted(compareTags)).toEqual(tags);
  });

  it('does not depend on the order in which the tags are given', () => {
    const part = fc.constantFrom('0', '1', '2', '10');
    const pre = fc.constantFrom('', '-rc.1', '-rc.2', '-a', '+b');
    const tag = fc.tuple(part, part, part, pre).map(([a, b, c, end]) => `v${a}.${b}.${c}${end}`);
    fc.assert(
      fc.property(fc.array(tag, { maxLength: 12 }), fc.constantFrom('v*', 'v1.*', 'v*-rc.*'), (tags, pattern) => {
        expect(newestOf(pattern, tags.toSorted())).toEqual(newestOf(pattern, tags));
      }),
    );
  });
});
