import { join } from 'node:path';
import { expect, test } from 'vitest';
import { openStore } from '../../store/open.ts';
import { failureOf, put } from '../contract/store-steps.ts';
import { startEtcd } from '../harness/etcd.ts';
import { temporaryFolder } from './sqlite/temporary-folder.ts';

test('a URL names a file, a memory or a cluster', async () => {
  await using folder = await temporaryFolder();
  await using etcd = await startEtcd();
  for (const url of [`sqlite:${join(folder.path, 'store.db')}`, 'sqlite::memory:', `etcd://${etcd.host}`]) {
    await using store = await openStore(url);
    await put(store, 'a', url);
    expect((await store.get('a'))?.value).toBe(url);
  }
});

test('what names no store is refused', async () => {
  const urls = ['', 'sqlite:', 'etcd://', 'etcd://host', 'etcd://a:1,', 'etcd://a:1/path', 'http://a:1', '/a/path'];
  for (const url of urls) expect(await failureOf(openStore(url))).toBeInstanceOf(RangeError);
});
