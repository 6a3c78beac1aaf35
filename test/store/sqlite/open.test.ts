import { copyFile, stat, symlink, writeFile } from 'node:fs/promises';
import { hostname } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { expect, test } from 'vitest';
import { isRewound, isUnavailable } from '../../../store/errors.ts';
import { openSqlite } from '../../../store/sqlite/open.ts';
import { after, failureOf, fill, firstOf, put, write } from '../../contract/store-steps.ts';
import { temporaryFolder } from './temporary-folder.ts';
import { WriterProcess } from './writer-process.ts';

test('a file that is open cannot be opened again, by this process or through another name', async () => {
  await using folder = await temporaryFolder();
  const path = join(folder.path, 'store.db');
  await using store = await openSqlite({ path });
  await symlink(path, join(folder.path, 'alias.db'));
  for (const name of ['store.db', 'alias.db']) {
    const error = await failureOf(openSqlite({ path: join(folder.path, name) }));
    expect(isUnavailable(error)).toBe(true);
    expect((error as Error).message).toBe(
      `Cannot open ${join(folder.path, name)} as it is held by process ${process.pid} on ${hostname()}: one control plane ` +
        'uses it at a time; end that one first, or use another data directory',
    );
  }
  await put(store, 'a', '1');
});

test('a file held by another process is refused with its name, and free once that process was killed', async () => {
  await using folder = await temporaryFolder();
  const path = join(folder.path, 'store.db');
  await using holder = new WriterProcess(path, 'hold');
  await holder.wrote(1);
  const error = await failureOf(openSqlite({ path }));
  expect((error as Error).message).toContain(`held by process ${holder.pid} on ${hostname()}`);
  await holder.kill();
  await using store = await openSqlite({ path });
  expect(await store.revision()).toBe(1);
});

test('a file opened again has the same history', async () => {
  await using folder = await temporaryFolder();
  const path = join(folder.path, 'store.db');
  const first = await openSqlite({ path });
  const at = await put(first, 'a', '1');
  const { incarnation } = first;
  await first.close();
  await using second = await openSqlite({ path });
  expect(second.incarnation).toBe(incarnation);
  expect(await second.revision()).toBe(at);
  expect((await firstOf(second, { prefix: '' }, at)).events).toEqual([{ key: 'a', revision: at, value: '1' }]);
});

test('a restored older copy is another incarnation, and a reader that was further gets the error that history was rewound', async () => {
  await using folder = await temporaryFolder();
  const [path, copy] = [join(folder.path, 'store.db'), join(folder.path, 'copy.db')];
  const first = await openSqlite({ path });
  await put(first, 'a', '1');
  await first.close();
  await copyFile(path, copy);
  const second = await openSqlite({ path });
  expect(second.incarnation).toBe(first.incarnation);
  const at = await put(second, 'a', '2');
  await second.close();
  await copyFile(copy, path);
  await using third = await openSqlite({ path });
  expect(third.incarnation).not.toBe(first.incarnation);
  const error = await failureOf(firstOf(third, { prefix: '' }, after(at)));
  expect(isRewound(error)).toBe(true);
  expect(error).toMatchObject({ failure: { incarnation: third.incarnation } });
});

test('a copy that is restored twice, or without its marker, is another incarnation each time', async () => {
  await using folder = await temporaryFolder();
  const [path, copy] = [join(folder.path, 'store.db'), join(folder.path, 'copy.db')];
  const seen = new Set<string>();
  for (let round = 0; round < 3; round++) {
    const store = await openSqlite({ path });
    seen.add(store.incarnation);
    await put(store, 'a', '1');
    await store.close();
    if (round === 0) await copyFile(path, copy);
    const longer = await openSqlite({ path });
    await fill(longer, 'b', round * 50 + 1);
    await longer.close();
    await copyFile(copy, path);
  }
  await copyFile(copy, join(folder.path, 'moved.db'));
  const moved = await openSqlite({ path: join(folder.path, 'moved.db') });
  seen.add(moved.incarnation);
  await moved.close();
  expect(seen.size).toBe(4);
});

test('a new store in memory is a new incarnation', async () => {
  await using one = await openSqlite({ path: ':memory:' });
  await using two = await openSqlite({ path: ':memory:' });
  expect(one.incarnation).not.toBe(two.incarnation);
});

test('nobody but the owner can read the file', async () => {
  await using folder = await temporaryFolder();
  const path = join(folder.path, 'store.db');
  await using store = await openSqlite({ path });
  await put(store, 'a', '1');
  for (const suffix of ['', '-wal', '-marker']) expect((await stat(path + suffix)).mode & 0o077).toBe(0);
});

test('a file of another schema, or that is no database, is refused and freed again', async () => {
  await using folder = await temporaryFolder();
  const path = join(folder.path, 'store.db');
  await (await openSqlite({ path })).close();
  const db = new DatabaseSync(path);
  db.exec("UPDATE meta SET v = 99 WHERE k = 'schema'");
  db.close();
  for (let n = 0; n < 2; n++)
    expect((await failureOf(openSqlite({ path }))) as Error).toMatchObject({
      message: `Cannot open ${path} as it has schema 99, and this release knows 1 only: run the release that wrote it, or restore a backup`,
    });
  const text = join(folder.path, 'text.db');
  await writeFile(text, 'this is no database, but it is long enough to be looked at as one'.repeat(100));
  expect(await failureOf(openSqlite({ path: text }))).toMatchObject({
    message: expect.stringContaining('not a database'),
  });
});

test('a file in a folder that is not there is refused', async () => {
  await using folder = await temporaryFolder();
  expect(await failureOf(openSqlite({ path: join(folder.path, 'none', 'store.db') }))).toMatchObject({
    code: 'ENOENT',
  });
});

test('compaction leaves nothing of what is deleted, and one row of what is there', async () => {
  await using folder = await temporaryFolder();
  const path = join(folder.path, 'store.db');
  const store = await openSqlite({ path });
  for (let n = 0; n < 3; n++) {
    await write(store, { put: 'a', value: `${n}` }, { put: 'gone', value: '' });
    await write(store, { delete: 'gone' });
  }
  await store.compact(await store.revision());
  await store.close();
  const db = new DatabaseSync(path, { readOnly: true });
  expect(db.prepare('SELECT key, value FROM log').all()).toEqual([{ key: 'a', value: '2' }]);
  db.close();
});

test('compaction gives space back to the disk', async () => {
  await using folder = await temporaryFolder();
  const path = join(folder.path, 'store.db');
  await using store = await openSqlite({ path });
  for (let n = 0; n < 40; n++) await fill(store, 'k', 50, `${n}`.repeat(2000));
  await store.compact(after(await store.revision(), -1));
  const full = 40 * 50 * 2000;
  expect((await stat(path)).size).toBeLessThan(full / 4);
  expect((await stat(`${path}-wal`)).size).toBe(0);
});
