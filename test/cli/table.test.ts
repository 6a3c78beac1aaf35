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
  expect(table(['message'], [['two\nlines\u001b[2J\u0007']])).toBe('MESSAGE\ntwo lines[2J');
});

test('a line that comes later stands in the columns of the ones before it', () => {
  const columns = new Columns([['NAME', 'STATUS']]);
  expect(columns.line(['a', 'b'])).toBe('a      b');
  expect(columns.line(['a-long-name', 'b'])).toBe('a-long-name   b');
  expect(columns.line(['a', 'b'])).toBe('a             b');
});
