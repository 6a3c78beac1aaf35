import { describe, expect, test } from 'vitest';
import { engines } from '../../databases/engines.ts';
import { faultOf, memoryFault, mib } from '../../databases/parameters.ts';
import type { Parameter } from '../../databases/parameters.ts';

const number: Parameter = { type: 'number', least: 10, most: 200 };
const decimal: Parameter = { type: 'number', least: 0, most: 10, digits: 2 };
const size: Parameter = { type: 'size', least: mib, most: 64 * mib };
const time: Parameter = { type: 'milliseconds', least: 0, most: 1000, off: true };
const choice: Parameter = { type: 'choice', values: ['ON', 'OFF'] };
const list: Parameter = { type: 'list', values: ['A', 'B'] };

test.each([
  [number, ['10', '200'], ['9', '201', '', '1e2', '-1', '10.5', '0x20', ' 10', '10 --init-file=/x', '10\n']],
  [decimal, ['0', '1.25', '10'], ['1.255', '.5', '11', '-1', '1.']],
  [size, ['1m', '64m', '1024k'], ['0', '64', '65m', '1g', '1M', '1.5m', '1023k', 'm']],
  [time, ['0', '1000', '-1'], ['-2', '1001', '1s']],
  [choice, ['ON'], ['on', '', 'ON,OFF']],
  [list, ['', 'A', 'B,A'], ['A,A', 'A,', 'a', 'A, B']],
])('a parameter %j takes %j and refuses %j', (parameter, good, bad) => {
  for (const value of good) expect([value, faultOf(parameter, value)]).toEqual([value, undefined]);
  for (const value of bad) expect([value, faultOf(parameter, value)]).toEqual([value, expect.stringMatching(/^Must /)]);
});

test('what engines reserve must leave a quarter of the memory', () => {
  const { known = {} } = engines.postgres.settings ?? {};
  expect(memoryFault(known, { shared_buffers: '384m', work_mem: '4g' }, 512 * mib)).toBeUndefined();
  expect(memoryFault(known, { shared_buffers: '385m' }, 512 * mib)).toEqual({
    name: 'shared_buffers',
    fault: 'Must leave a quarter of memory_limit free: at most 384m',
  });
});

describe.each(Object.values(engines).filter(({ settings }) => settings !== undefined))(
  '$word',
  ({ settings, command }) => {
    test('gets each parameter as arguments of their own, after the command of the image', () => {
      expect(settings?.command).not.toHaveLength(0);
      expect(settings?.command).toEqual(command ?? settings?.command);
      for (const name of Object.keys(settings?.known ?? {})) expect(name).toMatch(/^[a-z][a-z0-9_-]*$/);
    });
  },
);

test('sizes and times are in the units of the engine', () => {
  const of = (type: 'postgres' | 'mysql' | 'mariadb' | 'redis', values: Record<string, string>) =>
    engines[type].settings?.arguments(values);
  expect(of('postgres', { shared_buffers: '64m', statement_timeout: '500', random_page_cost: '1.1' })).toEqual([
    '-c',
    'shared_buffers=65536kB',
    '-c',
    'statement_timeout=500',
    '-c',
    'random_page_cost=1.1',
  ]);
  expect(of('mysql', { innodb_buffer_pool_size: '64m', sql_mode: '' })).toEqual([
    '--innodb_buffer_pool_size=67108864',
    '--sql_mode=',
  ]);
  expect(of('mariadb', { max_connections: '20' })).toEqual(['--max_connections=20']);
  expect(of('redis', { maxmemory: '64m', timeout: '60' })).toEqual(['--maxmemory', '67108864', '--timeout', '60']);
});
