import { expect, test } from 'vitest';
import { judge, surplus } from '../../../controllers/garbage/verdict.ts';
import type { TenantView } from '../../../store/mirror.ts';
import type { ReadonlyResource } from '../../../store/resource.ts';
import { retention } from '../../../store/retention.ts';

const most = retention.notificationsPerUser;
const at = new Date(0).toISOString();

/** A user with 200 unread warnings and as much newer news, and how often a severity was read. */
function history(): { user: ReadonlyResource; all: ReadonlyResource<'notification'>[]; reads: () => number } {
  let reads = 0;
  const meta = { tenant: 't', generation: 1, createdAt: at, updatedAt: at, labels: {}, owners: [], finalizers: [] };
  const all = Array.from({ length: 2 * most }, (_, n) => ({
    meta: { ...meta, kind: 'notification', id: `n${n}`, createdRevision: n + 1 },
    desired: {
      user_id: 'ann',
      type: 'x',
      title: '',
      message: '',
      read: false,
      get severity() {
        reads += 1;
        return n < most ? 'error' : 'info';
      },
    },
  })) as unknown as ReadonlyResource<'notification'>[]; // as much of it as the rules read
  const user = { meta: { ...meta, kind: 'user', id: 'ann' }, desired: {} } as unknown as ReadonlyResource;
  return { user, all, reads: () => reads };
}

test('what a history spares is found by one look at each object of it', () => {
  const { user, all, reads } = history();
  expect(surplus('notification', user, all)).toEqual([]);
  expect(reads()).toBe(all.length);
});

test('an object that is among the newest is judged without a look at the others', () => {
  const { user, all, reads } = history();
  const view = { get: () => user, by: () => all } as unknown as TenantView; // as much of it as is asked
  for (const it of all.slice(most)) expect(judge(it, view, 0)).toBeUndefined();
  expect(reads()).toBe(0);
  expect(judge(all[0]!, view, 0)).toBeUndefined();
  expect(reads()).toBe(all.length);
});
