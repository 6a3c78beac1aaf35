import { describe, expect, test } from 'vitest';
import { LogRing } from '../../web/parts/log-ring.ts';
import type { LogLine } from '../../web/parts/log-ring.ts';
import { LogRows } from '../../web/parts/log-rows.ts';
import { LogSearch, piecesOf } from '../../web/parts/log-search.ts';

const line = (text: string, given: Partial<LogLine> = {}): LogLine => ({
  text,
  at: 1000,
  level: 'info',
  source: 'web',
  seq: -1,
  mark: 'line',
  ...given,
});
const lines = (from: number, to: number): LogLine[] =>
  Array.from({ length: to - from }, (_, by) => line(`line ${from + by}`, { seq: from + by }));

describe('a ring of lines', () => {
  test('keeps the last ones, which keep their numbers', () => {
    const ring = new LogRing(10);
    ring.push(lines(0, 25));
    expect([ring.first, ring.end, ring.length]).toEqual([15, 25, 10]);
    expect(ring.at(14)).toBeUndefined();
    expect(ring.at(15)).toEqual(line('line 15', { seq: 15 }));
    expect(ring.at(24)?.text).toBe('line 24');
    expect(ring.at(25)).toBeUndefined();
  });

  test('takes a line that is sent again once, by its source', () => {
    const ring = new LogRing(10);
    ring.push(lines(0, 3));
    ring.push([...lines(1, 4), line('of another', { seq: 1, source: 'db' })]);
    expect(ring.asText()).toBe('line 0\nline 1\nline 2\nline 3\nof another\n');
    expect(ring.hasSources).toBe(true);
  });

  test('takes the lines of two sources of one name, whose numbers are their own', () => {
    const ring = new LogRing(10);
    const of = (text: string, sourceId: string, seq: number) => ({ ...line(text, { seq }), sourceId });
    ring.push([of('production', 'a', 10), of('staging', 'b', 1), of('production again', 'a', 10)]);
    expect(ring.asText()).toBe('production\nstaging\n');
    expect([ring.at(1)?.source, ring.hasSources]).toEqual(['web', false]);
  });

  test('holds fewer lines where they are long', () => {
    const ring = new LogRing(1000);
    const long = 'x'.repeat(1024 * 1024);
    for (let number = 0; number < 40; number += 1) ring.push([line(long, { seq: number })]);
    expect([ring.first, ring.end]).toEqual([8, 40]);
    expect(ring.at(7)).toBeUndefined();
    ring.push([line('y'.repeat(40 * 1024 * 1024), { seq: 40 })]);
    expect([ring.length, ring.at(40)?.seq]).toEqual([1, 40]);
    ring.clear();
    ring.push([line('short', { seq: 41 })]);
    expect(ring.asText()).toBe('short\n');
  });

  test('calls back once for lines that came together, and not for ones it has', () => {
    const ring = new LogRing(10);
    let calls = 0;
    const end = ring.subscribe(() => {
      calls += 1;
    });
    ring.push(lines(0, 5));
    ring.push(lines(0, 5));
    expect(calls).toBe(1);
    end();
    ring.push(lines(5, 6));
    expect(calls).toBe(1);
  });
});

describe('a search', () => {
  test('finds lines without regard to case and colours, and goes on with new ones', () => {
    const ring = new LogRing(100);
    ring.push([line('an \u001B[31mERR\u001B[0mor'), line('fine'), line('another error')]);
    const search = new LogSearch(ring, 'Error');
    expect(search.slice(Infinity, () => 0)).toBe(false);
    expect(search.matches).toEqual([0, 2]);
    ring.push([line('error again')]);
    search.slice(Infinity, () => 0);
    expect(search.matches).toEqual([0, 2, 3]);
  });

  test('stops at its deadline with lines left, and drops what has left the ring', () => {
    const ring = new LogRing(1000);
    ring.push(Array.from({ length: 1000 }, () => line('hit')));
    const search = new LogSearch(ring, 'hit');
    expect(search.slice(1, () => 2)).toBe(true);
    expect(search.matches).toHaveLength(500);
    ring.push(Array.from({ length: 600 }, () => line('miss')));
    expect(search.slice(Infinity, () => 0)).toBe(false);
    expect([search.matches[0], search.matches.length]).toEqual([600, 400]);
  });

  test('marks each place of a line', () => {
    expect(piecesOf('one two ONE', 'one')).toEqual([
      { text: 'one', isMatch: true },
      { text: ' two ', isMatch: false },
      { text: 'ONE', isMatch: true },
    ]);
    expect(piecesOf('none', '')).toEqual([{ text: 'none', isMatch: false }]);
  });
});

describe('the rows of a view', () => {
  test('are found for any line, and lines for any row, as old ones leave', () => {
    const ring = new LogRing(1000);
    ring.push(lines(0, 1000));
    const rows = new LogRows(ring);
    expect(rows.sums.total).toBe(1000);
    ring.push(lines(1000, 1300));
    expect(rows.advance()).toBe(300);
    expect(rows.sums.total).toBe(1000);
    expect(rows.sums.itemAt(0)).toEqual({ number: 300, top: 0 });
    expect(rows.sums.itemAt(999)).toEqual({ number: 1299, top: 999 });
    expect(rows.sums.topOf(777)).toBe(477);
  });

  test('are several for a line that is wrapped, and none for one of a folded step', () => {
    const ring = new LogRing(1000);
    ring.push([
      line('fetch', { mark: 'step' }),
      line('x'.repeat(25)),
      line('short'),
      line('build', { mark: 'step' }),
      line('last'),
    ]);
    const rows = new LogRows(ring);
    rows.setColumns(10);
    expect(rows.sums.total).toBe(7);
    expect(rows.sums.itemAt(3)).toEqual({ number: 1, top: 1 });
    rows.setFolded(new Set([0]));
    expect(rows.sums.total).toBe(3);
    expect(rows.sums.itemAt(1)).toEqual({ number: 3, top: 1 });
    ring.push([line('y'.repeat(11))]);
    rows.advance();
    expect(rows.sums.total).toBe(5);
  });

  test('begin again where the whole ring was replaced at once', () => {
    const ring = new LogRing(10);
    ring.push(lines(0, 10));
    const rows = new LogRows(ring);
    ring.push(lines(10, 40));
    expect(rows.advance()).toBe(10);
    expect([rows.sums.first, rows.sums.end, rows.sums.total]).toEqual([30, 40, 10]);
  });
});
