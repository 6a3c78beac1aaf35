import { join } from 'node:path';
import { expect, test } from 'vitest';
import { openSqlite } from '../../../store/sqlite/open.ts';
import type { Entry, Store } from '../../../store/store.ts';
import { changesUpTo } from '../../contract/store-steps.ts';
import { temporaryFolder } from './temporary-folder.ts';
import { WriterProcess } from './writer-process.ts';

async function everything(store: Store, prefix: string): Promise<Map<string, Entry>> {
  const found = new Map<string, Entry>();
  for (let next: string | undefined, isFirst = true; isFirst || next !== undefined; isFirst = false) {
    const page = await store.list({ prefix }, next === undefined ? {} : { after: next });
    for (const entry of page.entries) found.set(entry.key.slice(prefix.length), entry);
    next = page.next;
  }
  return found;
}

test('a writer killed at any moment loses no acknowledged commit and no revision is used twice', async () => {
  await using folder = await temporaryFolder();
  const path = join(folder.path, 'store.db');
  const acknowledged = new Map<string, number>();
  for (let run = 0; run < 8; run++) {
    await using writer = new WriterProcess(path, 'write', `${run}`);
    await writer.wrote(1 + run * 37);
    await writer.kill();
    const [opened, ...lines] = writer.lines;
    const start = Number(opened?.split(' ')[1]);
    for (const revision of acknowledged.values()) expect(revision).toBeLessThanOrEqual(start);
    for (const line of lines) {
      const [name = '', revision] = line.split(' ');
      expect(Number(revision)).toBeGreaterThan(start);
      acknowledged.set(name, Number(revision));
    }
  }
  await using store = await openSqlite({ path });
  const [x, y] = [await everything(store, '/x/'), await everything(store, '/y/')];
  for (const [name, revision] of acknowledged) expect(x.get(name)?.modRevision).toBe(revision);
  expect([...x.keys()]).toEqual([...y.keys()]);
  for (const [name, entry] of x) expect(y.get(name)?.modRevision).toBe(entry.modRevision);
  const revisions = [...x.values()].map((entry) => entry.modRevision).toSorted((a, b) => a - b);
  expect(revisions).toEqual(revisions.map((_, n) => n + 2));
  expect(await store.revision()).toBe(revisions.at(-1));
  expect(x.size).toBeLessThanOrEqual(acknowledged.size + 8 * 8);
});

test('a commit whose writer died before the answer is there, and its guarded replay does nothing', async () => {
  await using folder = await temporaryFolder();
  const path = join(folder.path, 'store.db');
  await using writer = new WriterProcess(path, 'die-before-answer');
  await writer.ended();
  await using store = await openSqlite({ path });
  const replay = await store.txn({ if: [{ key: '/once', is: 'absent' }], then: [{ put: '/once', value: 'parent' }] });
  expect(replay).toMatchObject({ committed: false, failed: [{ current: { value: 'child' } }] });
});

test('the leases of a process that is gone expire in one revision when the file is opened again', async () => {
  await using folder = await temporaryFolder();
  const path = join(folder.path, 'store.db');
  await using writer = new WriterProcess(path, 'lease');
  await writer.wrote(2);
  await writer.kill();
  const leased = Number(writer.lines[1]?.split(' ')[1]);
  await using store = await openSqlite({ path });
  const now = await store.revision();
  expect(now).toBe(leased + 1);
  expect((await store.list({ prefix: '/leased/' })).entries).toEqual([]);
  expect(await changesUpTo(store, { prefix: '/leased/' }, now, now)).toEqual([
    { key: '/leased/a', revision: now, previous: '1' },
    { key: '/leased/b', revision: now, previous: '1' },
  ]);
});

test('a file that cannot grow fails the whole group as unavailable and leaves nothing half done', async () => {
  await using folder = await temporaryFolder();
  const path = join(folder.path, 'store.db');
  await using writer = new WriterProcess(path, 'full', '', 3_000_000);
  await writer.ended();
  const outcomes = new Map(writer.lines.slice(1).map((line) => line.split(' ') as [string, string]));
  const readable = outcomes.get('readable')?.split(',') ?? [];
  outcomes.delete('readable');
  const done = [...outcomes].filter(([, outcome]) => outcome === 'done').map(([name]) => name);
  const failed = [...outcomes].filter(([, outcome]) => outcome !== 'done');
  expect(done.length).toBeGreaterThan(0);
  expect(failed.map(([, outcome]) => outcome)).toEqual(['unavailable', 'unavailable', 'unavailable']);
  expect(readable.toSorted()).toEqual(done.toSorted());
  await using store = await openSqlite({ path });
  const [x, y] = [await everything(store, '/x/'), await everything(store, '/y/')];
  expect([...x.keys()]).toEqual([...y.keys()]);
  for (const name of done) expect(x.has(name)).toBe(true);
});
