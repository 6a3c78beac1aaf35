import { describe, expect, test } from 'vitest';
import { fieldChanges } from '../../web/parts/field-changes.ts';
import { folded, lineDiff } from '../../web/parts/line-diff.ts';

const shown = (before: string, after: string): string[] =>
  lineDiff(before, after).map(({ kind, text }) => `${{ same: ' ', added: '+', removed: '-' }[kind]}${text}`);

describe('two texts', () => {
  test('differ by line', () => {
    expect(shown('a\nb\nc\nd\n', 'a\nx\nc\nd\ne\n')).toEqual([' a', '-b', '+x', ' c', ' d', '+e']);
    expect(shown('', 'a\n')).toEqual(['+a']);
    expect(shown('a\n', '')).toEqual(['-a']);
    expect(shown('a\nb\n', 'a\nb\n')).toEqual([' a', ' b']);
  });

  test('have the numbers of their lines before and after', () => {
    expect(lineDiff('a\nb\nc', 'a\nc')).toEqual([
      { kind: 'same', text: 'a', before: 1, after: 1 },
      { kind: 'removed', text: 'b', before: 2 },
      { kind: 'same', text: 'c', before: 3, after: 2 },
    ]);
  });

  test('that share nothing and are large are one after the other', () => {
    const many = (word: string): string => Array.from({ length: 3000 }, (_, at) => `${word} ${at}`).join('\n');
    const rows = lineDiff(many('old'), many('new'));
    expect(rows).toHaveLength(6000);
    expect([rows[0]?.kind, rows.at(-1)?.kind]).toEqual(['removed', 'added']);
  });

  test('are folded where they are equal, with lines around each change', () => {
    const before = Array.from({ length: 30 }, (_, at) => String(at)).join('\n');
    const rows = folded(lineDiff(before, before.replace('\n15\n', '\nfifteen\n')));
    expect(rows.map((row) => (row.kind === 'fold' ? `${row.lines.length} equal` : row.text))).toEqual([
      '12 equal',
      '12',
      '13',
      '14',
      '15',
      'fifteen',
      '16',
      '17',
      '18',
      '11 equal',
    ]);
  });
});

test('two objects differ by field, also inside others and where one lacks it', () => {
  const changes = fieldChanges(
    { name: 'a', limits: { memory: '1g', cpu: null }, ports: [1] },
    { name: 'a', limits: { memory: '2g', cpu: null }, ports: [1, 2], extra: true },
  );
  expect(changes.filter(({ isEqual }) => !isEqual)).toEqual([
    { path: 'limits.memory', before: '1g', after: '2g', isEqual: false },
    { path: 'ports', before: '[1]', after: '[1,2]', isEqual: false },
    { path: 'extra', after: 'true', isEqual: false },
  ]);
  expect(changes.filter(({ isEqual }) => isEqual).map(({ path }) => path)).toEqual(['name', 'limits.cpu']);
});
