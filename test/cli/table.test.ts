import { expect, test } from 'vitest';
import { Columns, table } from '../../cli/table.ts';

test('columns are as wide as their widest cell, and the last one ends its line', () => {
  expect(
    table(
      ['name', 'status'],
      [
        ['a-long-name', 'active'],
        ['b', ''],
      ],
    ),
  ).toBe('NAME          STATUS\na-long-name   active\nb');
});

test('a cell stays one line, and cannot move the cursor of who reads it', () => {
  expect(table(['message'], [['two\nlines\u001b[2J\u0007']])).toBe('MESSAGE\ntwo lines\ufffd[2J\ufffd');
});

test('a line that comes later stands in the columns of the ones before it', () => {
  const columns = new Columns([['NAME', 'STATUS']], undefined);
  expect(columns.line(['a', 'b'])).toBe('a      b');
  expect(columns.line(['a-long-name', 'b'])).toBe('a-long-name   b');
  expect(columns.line(['a', 'b'])).toBe('a             b');
});

test('a screen is not left on its right: the widest columns are cut, and what is looked up stays whole', () => {
  const [name, id] = ['n'.repeat(100), '0f8fad5b-d9cb-469f-a165-70867728950e'];
  const all = [
    ['NAME', 'STATUS', 'ID'],
    [name, 'running', id],
  ];
  const lines = (columns: number | undefined) => {
    const cut = new Columns(all, columns);
    return all.map((row) => cut.line(row));
  };
  const [, row = ''] = lines(80);
  expect(row).toHaveLength(80);
  expect(row).toMatch(/^n+… {3}running {3}0f8fad5b/);
  expect(row).toContain(id);
  expect(lines(undefined)[1]).toContain(name);
  expect(lines(20)[1]).toContain(id);
});
