import { expect, test } from 'vitest';
import { oldestFirst } from '../../../controllers/backup/order.ts';
import type { ReadonlyResource } from '../../../store/resource.ts';
import { revision } from '../../../store/revision.ts';
import { object } from '../../harness/objects.ts';
import { desiredState } from '../../harness/states.ts';

const now = new Date('2030-01-10T00:00:00.000Z');
const found = { folder: 'f', size_bytes: 1, dump_bytes: 1, checksum_sha256: 'a', finished_at: now.toISOString() };

/** A backup that was stored as the nth and requested on a day of the month; `another`: another installation made it. */
function backup(name: string, nth: number, day: number, by: 'this' | 'another' = 'this'): ReadonlyResource<'backup'> {
  const requested_at = `2030-01-${String(day).padStart(2, '0')}T00:00:00.000Z`;
  const made = object('backup', desiredState('backup', { requested_at, ...(by === 'another' && { found }) }));
  return { ...made, meta: { ...made.meta, id: name, createdRevision: revision(nth) } };
}

const order = (...backups: ReadonlyResource<'backup'>[]): string[] =>
  oldestFirst(backups, now).map(({ meta }) => meta.id);

test('the order is that of the store, whatever the clocks said', () => {
  expect(order(backup('c', 3, 3), backup('ahead', 2, 20), backup('a', 1, 1))).toEqual(['a', 'ahead', 'c']);
  expect(order(backup('behind', 3, 1), backup('b', 2, 5), backup('a', 1, 4))).toEqual(['a', 'b', 'behind']);
  expect(order(backup('b', 2, 30), backup('a', 1, 31))).toEqual(['a', 'b']);
});

test('one that another installation made comes by its time, and none after now', () => {
  const own = [backup('a', 1, 2), backup('ahead', 2, 20), backup('c', 3, 6)];
  expect(order(...own, backup('old', 4, 1, 'another'))).toEqual(['old', 'a', 'ahead', 'c']);
  expect(order(...own, backup('new', 4, 8, 'another'))).toEqual(['a', 'ahead', 'c', 'new']);
  expect(order(...own, backup('of the future', 4, 25, 'another'), backup('last', 5, 10))).toEqual([
    'a',
    'ahead',
    'c',
    'of the future',
    'last',
  ]);
});
