import { expect, test } from 'vitest';
import { limits } from '../../../controllers/runtime/limits.ts';
import { Waiters } from '../../../controllers/runtime/waiters.ts';
import { revision } from '../../../store/revision.ts';

const awaited = [{ kind: 'server' as const, id: 'one' }];

test('a change after the look is known, one before it is not counted', () => {
  const waiters = new Waiters();
  waiters.changed('acme', 'server', 'one', revision(5));
  expect(waiters.changedSince('acme', awaited, revision(4))).toBe(true);
  expect(waiters.changedSince('acme', awaited, revision(5))).toBe(false);
});

test('more changes since the look than are remembered count as a change of what is awaited', () => {
  const waiters = new Waiters();
  waiters.changed('acme', 'server', 'one', revision(2));
  for (let n = 0; n < limits.recentChanges; n++) waiters.changed('acme', 'server', `other ${n}`, revision(3 + n));
  expect(waiters.changedSince('acme', awaited, revision(1))).toBe(true);
  expect(waiters.changedSince('acme', awaited, revision(3))).toBe(false);
});
