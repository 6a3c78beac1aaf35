import { open, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { examineFile } from '../../../store/sqlite/examine-file.ts';
import { openSqlite } from '../../../store/sqlite/open.ts';
import { temporaryFolder } from './temporary-folder.ts';

it('is told while the store is in use: a sound file, its log and the room of its disk', async () => {
  await using folder = await temporaryFolder();
  await using store = await openSqlite({ path: join(folder.path, 'store.db') });
  for (let n = 0; n < 50; n++)
    await store.txn({ if: [], then: [{ put: `/setpoint/1/a/${n}`, value: 'x'.repeat(5000) }] });
  const before = await store.revision();
  const health = await store.health();
  expect(health).toMatchObject({ backend: 'sqlite', fault: 'none', logBytes: expect.any(Number) });
  if (health.backend !== 'sqlite') throw new Error('It is no SQLite');
  expect(health.revision).toBeGreaterThan(before);
  expect(health.logBytes).toBeGreaterThan(100_000);
  expect(health.freeBytes).toBeGreaterThan(0);
  expect([health.writeMs >= 0, health.readMs >= 0]).toEqual([true, true]);
});

it('of a damaged file names the damage', async () => {
  await using folder = await temporaryFolder();
  const path = join(folder.path, 'store.db');
  {
    await using store = await openSqlite({ path });
    for (let n = 0; n < 200; n++)
      await store.txn({ if: [], then: [{ put: `/setpoint/1/a/${n}`, value: 'x'.repeat(5000) }] });
  }
  await rm(`${path}-wal`, { force: true });
  const { size } = await stat(path);
  const file = await open(path, 'r+');
  await file.write(Buffer.alloc(100_000, 0xff), 0, 100_000, Math.floor(size / 2));
  await file.close();
  expect((await examineFile(path, size)).fault).not.toMatch(/^(none|unchecked)$/);
});

it('of a store in memory, and of a very large file, says that it was not looked into', async () => {
  await using store = await openSqlite({ path: ':memory:' });
  expect(await store.health()).toMatchObject({ fault: 'unchecked', freeBytes: undefined });
  expect(await examineFile('/nowhere', 1024 ** 3)).toEqual({ logBytes: 0, fault: 'unchecked' });
});
