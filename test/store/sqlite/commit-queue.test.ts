import { DatabaseSync } from 'node:sqlite';
import { expect, test, vi } from 'vitest';
import { conflict, isConflict, isFull, isUnavailable, mayBeWritten } from '../../../store/errors.ts';
import { CommitQueue } from '../../../store/sqlite/commit-queue.ts';
import { Engine } from '../../../store/sqlite/engine.ts';
import { prepareSchema } from '../../../store/sqlite/schema.ts';
import type { Txn } from '../../../store/store.ts';

function queueInMemory() {
  const db = new DatabaseSync(':memory:');
  const engine = new Engine(db, prepareSchema(db, ':memory:'));
  const committed = vi.fn<() => void>();
  const commits = vi.spyOn(engine, 'atomically');
  const queue = new CommitQueue(engine, committed);
  const apply = (txn: Txn) => queue.run(() => engine.apply(txn, () => false));
  const limitPages = () => db.exec('PRAGMA max_page_count = 20');
  return { engine, limitPages, queue, apply, committed, commits, [Symbol.dispose]: () => engine.close() };
}

const put = (key: string, value: string): Txn => ({ if: [], then: [{ put: key, value }] });

test('transactions of one turn share one commit, and each has a revision', async () => {
  using it = queueInMemory();
  const results = await Promise.all(Array.from({ length: 100 }, (_, n) => it.apply(put(`${n}`, ''))));
  expect(results.map((result) => result.revision)).toEqual(Array.from({ length: 100 }, (_, n) => n + 2));
  expect(it.commits).toHaveBeenCalledTimes(1);
  expect(it.committed).toHaveBeenCalledTimes(1);
});

test('a guard sees what was queued before it', async () => {
  using it = queueInMemory();
  const create: Txn = { if: [{ key: 'a', is: 'absent' }], then: [{ put: 'a', value: '' }] };
  const [first, second] = await Promise.all([it.apply(create), it.apply(create)]);
  expect(first.committed).toBe(true);
  expect(second.committed).toBe(false);
});

test('a refused transaction fails alone', async () => {
  using it = queueInMemory();
  const [before, refused, behind] = await Promise.allSettled([
    it.apply(put('a', '1')),
    it.queue.run(() => {
      throw conflict('refused');
    }),
    it.apply(put('b', '1')),
  ]);
  expect(before.status).toBe('fulfilled');
  expect(refused.status === 'rejected' && isConflict(refused.reason)).toBe(true);
  expect(behind.status).toBe('fulfilled');
  expect(it.engine.get('b')).toBeDefined();
});

test('an error of the disk fails the group, undoes it, and the next group goes on from there', async () => {
  using it = queueInMemory();
  const results = await Promise.allSettled([
    it.apply(put('a', '1')),
    it.queue.run(() => {
      throw new Error('disk I/O error');
    }),
    it.apply(put('b', '1')),
  ]);
  for (const result of results) {
    expect(result.status === 'rejected' && isUnavailable(result.reason)).toBe(true);
    expect(result.status === 'rejected' && String(result.reason)).toContain('disk I/O error');
    expect(result.status === 'rejected' && mayBeWritten(result.reason)).toBe(true);
  }
  expect(it.committed).not.toHaveBeenCalled();
  expect(it.engine.get('a')).toBeUndefined();
  expect(it.engine.head.revision).toBe(1);
  expect(await it.apply(put('c', '1'))).toEqual({ committed: true, revision: 2 });
});

test('a file that may not grow is full, and nothing of the group is written', async () => {
  using it = queueInMemory();
  it.limitPages();
  const results = await Promise.allSettled([it.apply(put('a', '1')), it.apply(put('b', 'x'.repeat(100_000)))]);
  for (const result of results) {
    expect(result.status === 'rejected' && isFull(result.reason)).toBe(true);
    expect(result.status === 'rejected' && mayBeWritten(result.reason)).toBe(false);
  }
  expect(it.engine.get('a')).toBeUndefined();
  expect(it.engine.head.revision).toBe(1);
});

test('a group that wrote nothing is announced to no watch', async () => {
  using it = queueInMemory();
  await it.apply({ if: [{ key: 'a', is: 'present' }], then: [{ put: 'a', value: '' }] });
  expect(it.committed).not.toHaveBeenCalled();
});

test('a long queue is committed in several turns', async () => {
  using it = queueInMemory();
  await Promise.all(Array.from({ length: 1000 }, (_, n) => it.apply(put(`${n}`, ''))));
  expect(it.commits).toHaveBeenCalledTimes(4);
});
