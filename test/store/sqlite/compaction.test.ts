import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { expect, test } from 'vitest';
import { openSqlite } from '../../../store/sqlite/open.ts';
import { fill, put } from '../../contract/store-steps.ts';
import { temporaryFolder } from './temporary-folder.ts';

test('a reader of the file does not hold up a compaction, which gives back the room of what it forgot', async () => {
  await using folder = await temporaryFolder();
  const path = join(folder.path, 'store.db');
  await using store = await openSqlite({ path });
  for (let round = 0; round < 10; round++) await fill(store, '/k/', 100, `${round}`.repeat(20_000));
  using reader = new DatabaseSync(path, { readOnly: true });
  reader.exec('BEGIN');
  expect(reader.prepare('SELECT count(*) AS n FROM kv').get()).toEqual({ n: 100 });
  const before = await store.size();

  // a wait for the reader would last a second for each slice of the work, of which there are some twenty
  await store.compact(await store.revision());

  expect((await store.size()).bytes).toBeLessThan(before.bytes / 4);
  expect(reader.prepare('SELECT count(*) AS n FROM log').get()).toEqual({ n: 1000 });
  await put(store, '/k/after', '1');
}, 10_000);
