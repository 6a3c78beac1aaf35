import { chmod, chown, copyFile, mkdir, readdir, readFile, stat, symlink, truncate, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { backUpFile, restoreFile } from '../../../store/sqlite/copy-file.ts';
import { openSqlite } from '../../../store/sqlite/open.ts';
import type { Store } from '../../../store/store.ts';
import { temporaryFolder } from './temporary-folder.ts';

const now = new Date('2026-01-02T03:04:05.678Z');

const put = (store: Store, key: string, value: string): Promise<unknown> =>
  store.txn({ if: [], then: [{ put: key, value }] });

const modeOf = async (path: string): Promise<number> => (await stat(path)).mode & 0o777;

it('a copy that is taken beside the writer is one state, closed to others, and replaces no file', async () => {
  await using temporary = await temporaryFolder();
  const folder = temporary.path;
  const [path, copy] = [join(folder, 'store.db'), join(folder, 'copy.db')];
  {
    await using store = await openSqlite({ path });
    await put(store, '/a', 'in the copy');
    expect(await backUpFile(path, copy)).toBeGreaterThan(0);
    await put(store, '/a', 'later');
    await expect(backUpFile(path, copy)).rejects.toThrow('there is such a file');
  }
  expect(await modeOf(copy)).toBe(0o600);
  await expect(backUpFile(join(folder, 'none.db'), join(folder, 'other.db'))).rejects.toThrow();
  expect((await readdir(folder)).filter((name) => /partial|other|none/.test(name))).toEqual([]);
  await using restored = await openSqlite({ path: copy });
  expect((await restored.get('/a'))?.value).toBe('in the copy');
});

it('a copy takes the place of a store that is stopped, which is kept, and begins another history', async () => {
  await using temporary = await temporaryFolder();
  const folder = temporary.path;
  const [path, copy] = [join(folder, 'store.db'), join(folder, 'copy.db')];
  let incarnation: string;
  {
    await using store = await openSqlite({ path });
    await put(store, '/a', 'in the copy');
    await backUpFile(path, copy);
    await put(store, '/a', 'later');
    ({ incarnation } = store);
    await expect(restoreFile(copy, path, now)).rejects.toThrow(`held by process ${process.pid}`);
    expect((await store.get('/a'))?.value).toBe('later');
  }
  await chmod(copy, 0o644);
  const former = await restoreFile(copy, path, now);
  expect(former).toBe(`${path}.before-2026-01-02T03-04-05.678Z`);
  expect(await modeOf(path)).toBe(0o600);
  {
    await using store = await openSqlite({ path });
    expect((await store.get('/a'))?.value).toBe('in the copy');
    expect(store.incarnation).not.toBe(incarnation);
  }
  await using before = await openSqlite({ path: former! });
  expect((await before.get('/a'))?.value).toBe('later');
});

it('the former store is kept with what its log alone has', async () => {
  await using temporary = await temporaryFolder();
  const folder = temporary.path;
  const [path, copy, crashed] = [join(folder, 'store.db'), join(folder, 'copy.db'), join(folder, 'crashed')];
  await mkdir(crashed);
  {
    await using store = await openSqlite({ path });
    await backUpFile(path, copy);
    await put(store, '/a', 'in the log');
    for (const name of ['store.db', 'store.db-wal']) await copyFile(join(folder, name), join(crashed, name));
  }
  const former = await restoreFile(copy, join(crashed, 'store.db'), now);
  await using before = await openSqlite({ path: former! });
  expect((await before.get('/a'))?.value).toBe('in the log');
  await using restored = await openSqlite({ path: join(crashed, 'store.db') });
  expect(await restored.get('/a')).toBeUndefined();
});

it('a copy with a log beside it, and a lock that is a link, are refused', async () => {
  await using temporary = await temporaryFolder();
  const folder = temporary.path;
  const [path, copy, other] = [join(folder, 'store.db'), join(folder, 'copy.db'), join(folder, 'other.db')];
  {
    await using store = await openSqlite({ path });
    await put(store, '/a', 'in the log');
    await backUpFile(path, copy);
    for (const ending of ['', '-wal']) await copyFile(`${path}${ending}`, `${other}${ending}`);
  }
  await expect(restoreFile(other, path, now)).rejects.toThrow(/has writes that .* lacks/);
  const target = join(folder, 'elsewhere');
  await symlink(target, join(folder, 'new.db-lock'));
  await expect(restoreFile(copy, join(folder, 'new.db'), now)).rejects.toThrow(/is a link/);
  expect(await readdir(folder)).not.toContain('elsewhere');
});

it('a copy goes where no store was', async () => {
  await using temporary = await temporaryFolder();
  const folder = temporary.path;
  const [path, copy, fresh] = [join(folder, 'store.db'), join(folder, 'copy.db'), join(folder, 'fresh')];
  await mkdir(fresh);
  {
    await using store = await openSqlite({ path });
    await put(store, '/a', 'in the copy');
    await backUpFile(path, copy);
  }
  expect(await restoreFile(copy, join(fresh, 'store.db'), now)).toBeUndefined();
  await using restored = await openSqlite({ path: join(fresh, 'store.db') });
  expect((await restored.get('/a'))?.value).toBe('in the copy');
});

it('what is no whole store is refused, and the store stays as it was', async () => {
  await using temporary = await temporaryFolder();
  const folder = temporary.path;
  const [path, copy] = [join(folder, 'store.db'), join(folder, 'copy.db')];
  {
    await using store = await openSqlite({ path });
    await put(store, '/a', 'x'.repeat(100_000));
    await backUpFile(path, copy);
  }
  const [text, empty] = [join(folder, 'text'), join(folder, 'empty')];
  await writeFile(text, 'no database, but some text that is long enough to be looked at as one'.repeat(20));
  await writeFile(empty, '');
  await truncate(copy, 40_000);
  const before = await readFile(path);
  for (const file of [text, empty, copy, join(folder, 'missing')])
    await expect(restoreFile(file, path, now), file).rejects.toThrow();
  expect(await readFile(path)).toEqual(before);
  expect((await readdir(folder)).filter((name) => /restoring|before/.test(name))).toEqual([]);
});

it.runIf(process.getuid?.() === 0)('what root puts back belongs to the user of the server', async () => {
  await using temporary = await temporaryFolder();
  const folder = temporary.path;
  const [path, copy, data] = [join(folder, 'store.db'), join(folder, 'copy.db'), join(folder, 'data')];
  {
    await using store = await openSqlite({ path });
    await put(store, '/a', 'in the copy');
    await backUpFile(path, copy);
  }
  await mkdir(data);
  await chown(data, 65_534, 65_534);
  await restoreFile(copy, join(data, 'store.db'), now);
  for (const name of await readdir(data)) expect((await stat(join(data, name))).uid, name).toBe(65_534);
});
