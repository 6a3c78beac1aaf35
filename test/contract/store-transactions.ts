import { setImmediate as nextTurn } from 'node:timers/promises';
import { expect } from 'vitest';
import { isTooLarge, isUnavailable } from '../../store/errors.ts';
import { revision } from '../../store/revision.ts';
import { limits } from '../../store/store.ts';
import type { Guard } from '../../store/store.ts';
import { FaultyStore } from '../harness/faulty-store.ts';
import type { Case } from './store-backends.ts';
import { after, committed, failureOf, put, write } from './store-steps.ts';

/** Reading and writing single keys, guards, limits, concurrency. */
export function transactionCases(it: Case): void {
  it('a key that was never written is absent', async ({ store, key }) => {
    expect(await store.get(key('a'))).toBeUndefined();
  });

  it('a written key is read with the revision of its writing', async ({ store, key }) => {
    const at = await put(store, key('a'), 'one');
    expect(await store.get(key('a'))).toEqual({ key: key('a'), value: 'one', createRevision: at, modRevision: at });
  });

  it('an overwritten key keeps its creation and moves its modification', async ({ store, key }) => {
    const created = await put(store, key('a'), 'one');
    const modified = await put(store, key('a'), 'two');
    expect(await store.get(key('a'))).toMatchObject({
      value: 'two',
      createRevision: created,
      modRevision: modified,
    });
  });

  it('a key that was deleted and written again is a new one', async ({ store, key }) => {
    await put(store, key('a'), 'one');
    await write(store, { delete: key('a') });
    expect(await store.get(key('a'))).toBeUndefined();
    const again = await put(store, key('a'), 'two');
    expect(await store.get(key('a'))).toMatchObject({ createRevision: again, modRevision: again });
  });

  it('all writes of a transaction get one revision, the next one', async ({ store, key }) => {
    const before = await store.revision();
    const at = await write(store, { put: key('a'), value: '1' }, { put: key('b'), value: '2' });
    expect(at).toBe(before + 1);
    expect((await store.get(key('a')))?.modRevision).toBe(at);
    expect((await store.get(key('b')))?.modRevision).toBe(at);
    expect(await store.revision()).toBe(at);
  });

  it('a guard for absence fails once the key is there, and shows it', async ({ store, key }) => {
    const guard: Guard = { key: key('a'), is: 'absent' };
    const first = await store.txn({ if: [guard], then: [{ put: key('a'), value: '1' }] });
    expect(first.committed).toBe(true);
    const second = await store.txn({ if: [guard], then: [{ put: key('a'), value: '2' }] });
    const current = await store.get(key('a'));
    expect(current?.value).toBe('1');
    expect(second).toEqual({ committed: false, revision: first.revision, failed: [{ guard, current }] });
  });

  it('a guard for presence fails while the key is absent', async ({ store, key }) => {
    const guard: Guard = { key: key('a'), is: 'present' };
    const refused = await store.txn({ if: [guard], then: [{ put: key('b'), value: '1' }] });
    expect(refused).toMatchObject({ committed: false, failed: [{ guard }] });
    await put(store, key('a'), '1');
    expect(await store.txn({ if: [guard], then: [{ put: key('b'), value: '1' }] })).toMatchObject({ committed: true });
  });

  it('a guard for a revision fails after a change, a deletion and a new creation', async ({ store, key }) => {
    const at = await put(store, key('a'), '1');
    const guard: Guard = { key: key('a'), is: 'at', revision: at };
    const attempt = { if: [guard], then: [{ put: key('b'), value: '1' }] };
    expect(await store.txn(attempt)).toMatchObject({ committed: true });
    await put(store, key('a'), '2');
    expect(await store.txn(attempt)).toMatchObject({ committed: false });
    await write(store, { delete: key('a') });
    expect(await store.txn(attempt)).toMatchObject({ committed: false, failed: [{ guard }] });
    await put(store, key('a'), '1');
    expect(await store.txn(attempt)).toMatchObject({ committed: false });
  });

  it('only the guards that failed are reported', async ({ store, key }) => {
    const at = await put(store, key('a'), '1');
    const good: Guard = { key: key('a'), is: 'at', revision: at };
    const bad: Guard[] = [
      { key: key('b'), is: 'present' },
      { key: key('a'), is: 'absent' },
    ];
    const result = await store.txn({ if: [bad[0]!, good, bad[1]!], then: [] });
    expect(result).toEqual({
      committed: false,
      revision: at,
      failed: [{ guard: bad[0] }, { guard: bad[1], current: await store.get(key('a')) }],
    });
  });

  it('a transaction whose guard fails writes nothing and yields no revision', async ({ store, key }) => {
    const at = await put(store, key('a'), '1');
    await store.txn({
      if: [{ key: key('a'), is: 'absent' }],
      then: [{ put: key('b'), value: '1' }, { delete: key('a') }],
    });
    expect(await store.get(key('b'))).toBeUndefined();
    expect(await store.get(key('a'))).toBeDefined();
    expect(await store.revision()).toBe(at);
  });

  it('a transaction without writes commits at the current revision', async ({ store, key }) => {
    const at = await put(store, key('a'), '1');
    expect(await store.txn({ if: [], then: [] })).toEqual({ committed: true, revision: at });
    const guarded = await store.txn({ if: [{ key: key('a'), is: 'present' }], then: [] });
    expect(guarded).toEqual({ committed: true, revision: at });
    expect(await store.revision()).toBe(at);
  });

  it('deleting what is not there yields no revision', async ({ store, key }) => {
    const at = await put(store, key('a'), '1');
    expect(await store.txn({ if: [], then: [{ delete: key('b') }] })).toEqual({ committed: true, revision: at });
    expect(await store.revision()).toBe(at);
  });

  it('guards are judged by the state before the writes of their transaction', async ({ store, key }) => {
    const result = await store.txn({
      if: [{ key: key('a'), is: 'absent' }],
      then: [{ put: key('a'), value: '1' }],
    });
    expect(result.committed).toBe(true);
  });

  it('a transaction that writes a key twice is refused', async ({ store, key }) => {
    const at = await store.revision();
    const twice = [{ put: key('a'), value: '1' }, { delete: key('a') }];
    expect(await failureOf(store.txn({ if: [], then: twice }))).toBeInstanceOf(RangeError);
    expect(await store.revision()).toBe(at);
  });

  it('a key that is empty or no well-formed text is refused', async ({ store }) => {
    for (const key of ['', 'a\ud800b'])
      expect(await failureOf(store.txn({ if: [], then: [{ put: key, value: '' }] }))).toBeInstanceOf(RangeError);
  });

  it('a guard at revision 0 is refused', async ({ store, key }) => {
    const guard: Guard = { key: key('a'), is: 'at', revision: revision(0) };
    expect(await failureOf(store.txn({ if: [guard], then: [] }))).toBeInstanceOf(RangeError);
  });

  it('values come back as they were', async ({ store, key }) => {
    const values = ['', '\0', 'a\0b', '\r\n\t', '\u{1f600}é中', '\ufffd', '\ufeffbom', '{"a":"\\u0000"}', '0', 'NULL'];
    await write(store, ...values.map((value, n) => ({ put: key(`${n}`), value })));
    for (const [n, value] of values.entries()) expect((await store.get(key(`${n}`)))?.value).toBe(value);
  });

  it('half a surrogate pair in a value becomes the replacement character', async ({ store, key }) => {
    await put(store, key('a'), 'x\ud83dy');
    expect((await store.get(key('a')))?.value).toBe('x\ufffdy');
  });

  it('keys of every kind of text are distinguished', async ({ store, key }) => {
    const names = ['a', 'A', 'á', 'a\u0301', ' a', 'a ', '%', '_', 'a%2Fb', 'a/b', '\u{1f600}'];
    await write(store, ...names.map((name) => ({ put: key(name), value: name })));
    for (const name of names) expect((await store.get(key(name)))?.value).toBe(name);
  });

  it(`${limits.operations} guards and writes are taken, one more is too large`, async ({ store, key }) => {
    const guards = Array.from({ length: 32 }, (_, n): Guard => ({ key: key(`g${n}`), is: 'absent' }));
    const writes = Array.from({ length: 32 }, (_, n) => ({ put: key(`w${n}`), value: '1' }));
    expect(await store.txn({ if: guards, then: writes })).toMatchObject({ committed: true });
    const more = [...writes, { put: key('one more'), value: '1' }];
    expect(isTooLarge(await failureOf(store.txn({ if: guards, then: more })))).toBe(true);
    expect(await store.get(key('one more'))).toBeUndefined();
  });

  it('a value of the largest size is taken, one byte more is too large', async ({ store, key }) => {
    const largest = 'é'.repeat(limits.valueBytes / 2);
    await put(store, key('a'), largest);
    expect((await store.get(key('a')))?.value).toBe(largest);
    expect(isTooLarge(await failureOf(put(store, key('a'), `${largest}x`)))).toBe(true);
    expect((await store.get(key('a')))?.value).toBe(largest);
  });

  it('a transaction of the largest size is taken, one byte more is too large', async ({ store, key }) => {
    const names = [key('a'), key('b')];
    const rest = limits.txnBytes - limits.valueBytes - Buffer.byteLength(names.join(''));
    const writes = [
      { put: key('a'), value: 'x'.repeat(limits.valueBytes) },
      { put: key('b'), value: 'x'.repeat(rest) },
    ];
    const at = await write(store, ...writes);
    writes[1]!.value += 'x';
    expect(isTooLarge(await failureOf(write(store, ...writes)))).toBe(true);
    expect(await store.revision()).toBe(at);
  });

  it('a failed guard of a full transaction answers with the current values, however large', async ({ store, key }) => {
    const guards: Guard[] = [];
    for (let n = 0; n < 16; n++) {
      await put(store, key(`${n}`), 'x'.repeat(limits.valueBytes));
      guards.push({ key: key(`${n}`), is: 'absent' });
    }
    const result = await store.txn({ if: guards, then: [] });
    expect(result.committed || result.failed.map(({ current }) => current?.value.length)).toEqual(
      guards.map(() => limits.valueBytes),
    );
  });

  it('a thousand concurrent increments end at a thousand', async ({ store, key }) => {
    const increment = async (): Promise<void> => {
      for (;;) {
        const current = await store.get(key('n'));
        const guard: Guard =
          current === undefined
            ? { key: key('n'), is: 'absent' }
            : { key: key('n'), is: 'at', revision: current.modRevision };
        const value = String(Number(current?.value ?? 0) + 1);
        if ((await store.txn({ if: [guard], then: [{ put: key('n'), value }] })).committed) return;
      }
    };
    const worker = async (): Promise<void> => {
      for (let n = 0; n < 50; n++) await increment();
    };
    await Promise.all(Array.from({ length: 20 }, worker));
    expect((await store.get(key('n')))?.value).toBe('1000');
  });

  it('of many who create the same key at once, one succeeds and the others see it', async ({ store, key }) => {
    const results = await Promise.all(
      Array.from({ length: 50 }, (_, n) =>
        store.txn({ if: [{ key: key('a'), is: 'absent' }], then: [{ put: key('a'), value: `${n}` }] }),
      ),
    );
    const winners = results.filter((result) => result.committed);
    expect(winners).toHaveLength(1);
    const current = await store.get(key('a'));
    for (const result of results) if (!result.committed) expect(result.failed[0]?.current).toEqual(current);
  });

  it('concurrent transactions get revisions of their own without a hole', async ({ store, key }) => {
    const before = await store.revision();
    const results = await Promise.all(Array.from({ length: 300 }, (_, n) => put(store, key(`${n % 7}`), `${n}`)));
    const expected = Array.from({ length: 300 }, (_, n) => before + 1 + n);
    expect(results.toSorted((a, b) => a - b)).toEqual(expected);
  });

  it('no reader sees half of a transaction', async ({ store, key, range }) => {
    const pair = (value: string) => write(store, { put: key('a'), value }, { put: key('b'), value });
    await pair('start');
    let isWriting = true;
    const read = async (): Promise<number> => {
      let reads = 0;
      for (; isWriting || reads === 0; reads++) {
        const { entries } = await store.list(range);
        expect(entries[0]?.value).toBe(entries[1]?.value);
        expect(entries[0]?.modRevision).toBe(entries[1]?.modRevision);
        await nextTurn();
      }
      return reads;
    };
    const readers = [read(), read(), read()];
    await Promise.all(Array.from({ length: 200 }, (_, n) => pair(`${n}`)));
    isWriting = false;
    for (const reads of await Promise.all(readers)) expect(reads).toBeGreaterThan(0);
  });

  it('what was answered is seen by everyone who asks later', async ({ store, key, range }) => {
    for (let n = 0; n < 50; n++) {
      const at = await put(store, key('a'), `${n}`);
      const [entry, page, now] = await Promise.all([store.get(key('a')), store.list(range), store.revision()]);
      expect(entry?.value).toBe(`${n}`);
      expect(page.revision).toBeGreaterThanOrEqual(at);
      expect(now).toBeGreaterThanOrEqual(at);
    }
  });

  it('a guarded transaction whose answer was lost happens once when it is replayed', async ({ store, key }) => {
    const faulty = new FaultyStore(store).at(1, 'lose-answer').at(2, 'fail-before-commit');
    const create = { if: [{ key: key('a'), is: 'absent' as const }], then: [{ put: key('a'), value: 'mine' }] };
    expect(isUnavailable(await failureOf(faulty.txn(create)))).toBe(true);
    expect(isUnavailable(await failureOf(faulty.txn(create)))).toBe(true);
    const replay = await faulty.txn(create);
    expect(replay).toMatchObject({ committed: false, failed: [{ current: { value: 'mine' } }] });
    const entry = await store.get(key('a'));
    expect(entry?.createRevision).toBe(entry?.modRevision);
    expect(after(entry!.modRevision)).toBe(committed(await store.txn({ if: [], then: [{ delete: key('a') }] })));
  });
}
