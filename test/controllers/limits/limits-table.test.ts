import { expect, test } from 'vitest';
import { limits } from '../../../controllers/runtime/limits.ts';
import { garbageRows } from './garbage-rows.ts';
import { historyRows } from './history-rows.ts';
import { mailRows } from './mail-rows.ts';
import { messageRows } from './message-rows.ts';
import type { Row } from './row.ts';
import { runtimeRows } from './runtime-rows.ts';

const rows = flat({ ...runtimeRows, ...messageRows, ...garbageRows, ...mailRows, ...historyRows }, isRow);

/** What lies in groups, by its path. */
function flat<T>(groups: object, is: (it: unknown) => it is T, path = ''): [path: string, it: T][] {
  return Object.entries(groups).flatMap(([name, it]): [string, T][] =>
    is(it) ? [[`${path}${name}`, it]] : flat(it, is, `${path}${name}.`),
  );
}

function isRow(it: unknown): it is Row {
  return typeof it === 'object' && it !== null && 'probe' in it;
}

test('every limit has a row', () => {
  const isNumber = (it: unknown): it is number => typeof it === 'number';
  const names = flat(limits, isNumber).map(([name]) => name);
  expect(rows.map(([name]) => name).toSorted()).toEqual(names.toSorted());
});

test.each(rows)('%s is what it says, to the last one', async (_, { limit, step, answers, probe }) => {
  const tried: boolean[] = [];
  for (const n of [limit - step, limit, limit + step]) tried.push(await probe(n));
  expect(tried).toEqual(answers);
});
