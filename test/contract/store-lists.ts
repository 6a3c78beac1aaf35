import { expect } from 'vitest';
import { isRewound } from '../../store/errors.ts';
import type { Entry } from '../../store/store.ts';
import type { Case } from './store-backends.ts';
import { after, failureOf, fill, put, write } from './store-steps.ts';

const names = (entries: Entry[], prefix: string): string[] => entries.map((entry) => entry.key.slice(prefix.length));

/** Ranges, order, pages, the past. */
export function listCases(it: Case): void {
  it('an empty range is an empty page at the current revision', async ({ store, range }) => {
    expect(await store.list(range)).toEqual({ entries: [], revision: await store.revision() });
  });

  it('keys come in the order of their code points', async ({ store, range, key }) => {
    const ordered = [
      '',
      '!',
      '/',
      '/a',
      '0',
      'A',
      'a',
      'a!',
      'aa',
      'é',
      '中',
      '\ud7ff',
      '\ue000',
      '\uffff',
      '\u{1f600}',
    ];
    for (const name of ordered.toReversed()) await put(store, key(name), name);
    expect(names((await store.list(range)).entries, range.prefix)).toEqual(ordered);
  });

  it('a range holds what starts with its prefix and nothing beside it', async ({ store, key }) => {
    const edges = [
      'a',
      'a/',
      'a/1',
      'a/\u{10ffff}',
      'a0',
      'b',
      'x\ud7ff',
      'x\ud7ff1',
      'x\ue000',
      '\u{10ffff}',
      '\u{10ffff}z',
    ];
    await write(store, ...edges.map((name) => ({ put: key(name), value: '' })));
    for (const prefix of [...edges, 'a/\u{10ffff}', 'x', 'none']) {
      const { entries } = await store.list({ prefix: key(prefix) });
      const expected = edges.filter((name) => name.startsWith(prefix));
      expect(names(entries, key('')).toSorted()).toEqual(expected.toSorted());
    }
  });

  it('the empty prefix holds everything', async ({ store, key }) => {
    await put(store, key('a'), '');
    await put(store, `${key('')}\u{10ffff}`, '');
    const all: string[] = [];
    let next: string | undefined;
    do {
      const page = await store.list({ prefix: '' }, { limit: 500, ...(next === undefined ? {} : { after: next }) });
      all.push(...page.entries.map((entry) => entry.key));
      next = page.next;
    } while (next !== undefined);
    expect(all).toContain(key('a'));
    expect(all).toContain(`${key('')}\u{10ffff}`);
  });

  it('a page has at most its limit and says where the next one starts', async ({ store, range, key }) => {
    await write(store, ...['a', 'b', 'c', 'd'].map((name) => ({ put: key(name), value: name })));
    const first = await store.list(range, { limit: 3 });
    expect(names(first.entries, range.prefix)).toEqual(['a', 'b', 'c']);
    expect(first.next).toBe(key('c'));
    const second = await store.list(range, { limit: 3, after: first.next! });
    expect(names(second.entries, range.prefix)).toEqual(['d']);
    expect(second).not.toHaveProperty('next');
  });

  it('a page that holds exactly the rest has no next one', async ({ store, range, key }) => {
    await write(store, { put: key('a'), value: '' }, { put: key('b'), value: '' });
    expect(await store.list(range, { limit: 2 })).not.toHaveProperty('next');
  });

  it('a page may start after a key that is not there, or outside of the range', async ({ store, range, key }) => {
    await write(store, { put: key('a'), value: '' }, { put: key('c'), value: '' });
    expect(names((await store.list(range, { after: key('b') })).entries, range.prefix)).toEqual(['c']);
    expect(names((await store.list(range, { after: '!' })).entries, range.prefix)).toEqual(['a', 'c']);
    expect((await store.list(range, { after: '\u{10ffff}' })).entries).toEqual([]);
  });

  it('a page without room is refused', async ({ store, range }) => {
    for (const limit of [0, -1, 1.5]) expect(await failureOf(store.list(range, { limit }))).toBeInstanceOf(RangeError);
  });

  it('a page has a thousand entries unless asked otherwise', async ({ store, range, key }) => {
    await fill(store, key(''), 1001);
    const first = await store.list(range);
    expect(first.entries).toHaveLength(1000);
    expect((await store.list(range, { after: first.next! })).entries).toHaveLength(1);
  });

  it('pages at one revision are one picture, whatever is written meanwhile', async ({ store, range, key }) => {
    const at = await fill(store, key(''), 50, 'old');
    const whole = (await store.list(range)).entries;
    const pages: Entry[] = [];
    let next: string | undefined;
    do {
      const page = await store.list(range, { at, limit: 7, ...(next === undefined ? {} : { after: next }) });
      expect(page.revision).toBe(at);
      pages.push(...page.entries);
      next = page.next;
      await write(
        store,
        { put: key('000049'), value: 'new' },
        { delete: key('000030') },
        { put: key('0'), value: 'x' },
      );
      await put(store, key(`000040-${pages.length}`), 'between');
    } while (next !== undefined);
    expect(pages).toEqual(whole);
  });

  it('the past has the values, creations and deletions of its time', async ({ store, range, key }) => {
    const one = await put(store, key('a'), '1');
    const two = await write(store, { put: key('a'), value: '2' }, { put: key('b'), value: '1' });
    const three = await write(store, { delete: key('a') });
    const four = await put(store, key('a'), '4');
    const values = async (at: typeof one): Promise<string[]> =>
      (await store.list(range, { at })).entries.map(
        (it) => `${it.value}@${it.createRevision - one}-${it.modRevision - one}`,
      );
    expect(await values(one)).toEqual(['1@0-0']);
    expect(await values(two)).toEqual(['2@0-1', '1@1-1']);
    expect(await values(three)).toEqual(['1@1-1']);
    expect(await values(four)).toEqual(['4@3-3', '1@1-1']);
  });

  it('a page of the past that is not the last one knows the next', async ({ store, range, key }) => {
    const at = await write(store, ...['a', 'b', 'c'].map((name) => ({ put: key(name), value: name })));
    await write(store, { delete: key('b') }, { delete: key('c') });
    const first = await store.list(range, { at, limit: 2 });
    expect(first.next).toBe(key('b'));
    expect(names((await store.list(range, { at, limit: 2, after: key('b') })).entries, range.prefix)).toEqual(['c']);
  });

  it('the future cannot be listed', async ({ store, range }) => {
    const now = await store.revision();
    expect(isRewound(await failureOf(store.list(range, { at: after(now) })))).toBe(true);
  });

  it('ten megabytes are listed', async ({ store, range, key }) => {
    await fill(store, key(''), 100, 'x'.repeat(100_000));
    const { entries } = await store.list(range);
    expect(entries).toHaveLength(100);
    expect(entries.every((entry) => entry.value.length === 100_000)).toBe(true);
  });
}
