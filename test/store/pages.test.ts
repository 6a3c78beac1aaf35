import { afterEach, beforeEach, expect, test } from 'vitest';
import { unavailable } from '../../store/errors.ts';
import { afterUncompared, afterUnmirrored, keys } from '../../store/keys.ts';
import { Pages } from '../../store/pages.ts';
import { openSqlite } from '../../store/sqlite/open.ts';
import type { KeyRange, ListOptions, Page, Store } from '../../store/store.ts';
import { ForwardingStore } from '../harness/forwarding-store.ts';

/** A store that notes which pages it was asked for, and does not answer those that `isTooMuch`. */
class AskedStore extends ForwardingStore {
  readonly asked: ListOptions[] = [];
  isTooMuch = (_page: Page): boolean => false;

  override async list(range: KeyRange, options: ListOptions = {}): Promise<Page> {
    this.asked.push(options);
    const page = await super.list(range, options);
    if (this.isTooMuch(page)) throw unavailable('a test says so');
    return page;
  }
}

let backend: Store & AsyncDisposable;
let store: AskedStore;

beforeEach(async () => {
  backend = await openSqlite({ path: ':memory:' });
  store = new AskedStore(backend);
});

afterEach(() => backend[Symbol.asyncDispose]());

const name = (n: number): string => String(n).padStart(4, '0');

async function put(key: string, value: string): Promise<void> {
  await backend.txn({ if: [], then: [{ put: key, value }] });
}

async function putRecords(count: number): Promise<void> {
  for (let n = 0; n < count; n++) await put(keys.desired('acme', 'project', name(n)), '{}');
}

async function read(pages: Pages): Promise<string[]> {
  const found: string[] = [];
  for await (const { entries } of pages) found.push(...entries.map(({ key }) => key));
  return found;
}

const everything = async (): Promise<string[]> =>
  (await backend.list(keys.all, { limit: 5000 })).entries.map(({ key }) => key);

test('small records come in pages of the most that is wanted, at one revision if that is wanted', async () => {
  await putRecords(250);
  const at = await backend.revision();
  expect(await read(new Pages(store, { most: 100, after: afterUnmirrored, isPinned: true }))).toEqual(
    await everything(),
  );
  expect(store.asked.map(({ limit }) => limit)).toEqual([100, 100, 100]);
  expect(store.asked.map((it) => it.at)).toEqual([undefined, at, at]);
});

test('a page has no more keys than are expected to have 4 MiB, and few of the area of bytes', async () => {
  await put(keys.auditHead('acme'), '{}');
  for (let n = 0; n < 40; n++) await put(keys.bytes('acme', 'project', name(n)), 'x'.repeat(512 * 1024));
  await putRecords(250);
  // the first page ends in the audit log
  for (let n = 0; n < 100; n++) await put(keys.auditChained('acme', n), '{}');
  const found = await read(new Pages(store, { most: 100, after: afterUnmirrored, isPinned: false }));
  expect(found.filter((key) => !key.includes('/a/'))).toEqual(
    (await everything()).filter((key) => !key.includes('/a/')),
  );
  const [first, second, ...others] = store.asked.map(({ limit }) => limit);
  expect([first, second]).toEqual([100, 16]);
  expect(others.slice(0, 4)).toEqual([7, 7, 7, 7]);
  expect(Math.max(...others.map(Number))).toBe(100);
  // a list that wants no bytes reads none
  store.asked.length = 0;
  const without = await read(new Pages(store, { most: 100, after: afterUncompared, isPinned: false }));
  expect(without.filter((key) => key.includes('/b/'))).toEqual([]);
});

test('a page that does not come is asked for again with half as many keys, and what follows it goes on from it', async () => {
  for (let n = 0; n < 16; n++) await put(keys.desired('acme', 'project', name(n)), 'x'.repeat(100_000));
  for (let n = 16; n < 80; n++) await put(keys.desired('acme', 'project', name(n)), 'x'.repeat(1000));
  store.isTooMuch = ({ entries }) => entries.reduce((sum, { value }) => sum + value.length, 0) > 1_000_000;
  expect(await read(new Pages(store, { most: 32, after: afterUnmirrored, isPinned: true }))).toEqual(
    await everything(),
  );
  expect(store.asked.map(({ limit, after }) => [limit, after?.slice(-4)])).toEqual([
    [32, undefined],
    [16, undefined],
    [8, undefined],
    [8, '0007'],
    [8, '0015'],
    [16, '0023'],
    [32, '0039'],
    [32, '0071'],
  ]);
});

test('failures that have another cause leave no pages of a few keys behind', async () => {
  await putRecords(250);
  store.isTooMuch = () => store.asked.length <= 6;
  expect(await read(new Pages(store, { most: 100, after: afterUnmirrored, isPinned: true }))).toEqual(
    await everything(),
  );
  expect(store.asked.map(({ limit }) => limit)).toEqual([100, 50, 25, 12, 6, 3, 1, 2, 4, 8, 16, 32, 64, 100, 100]);
});

test('a store that does not answer for one key either is not asked any more', async () => {
  await putRecords(1);
  store.isTooMuch = () => true;
  const pages = new Pages(store, { most: 8, after: afterUnmirrored, isPinned: true });
  await expect(read(pages)).rejects.toThrow('a test says so');
  expect(store.asked.map(({ limit }) => limit)).toEqual([8, 4, 2, 1]);
  store.isTooMuch = () => false;
  expect((await pages.next())?.entries).toHaveLength(1);
  expect(await pages.next()).toBeUndefined();
});
