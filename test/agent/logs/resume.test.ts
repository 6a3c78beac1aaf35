import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { Entry, StoredLine } from '../../../agent/logs/record.ts';
import { comparedLines, Resume } from '../../../agent/logs/resume.ts';

const instance = 'i';

interface Written {
  /** When the engine recorded it. */
  at: number;
  stream: 'stdout' | 'stderr';
  message: string;
}

function entry({ at, stream, message }: Written): Entry {
  return { at, stream, level: 'info', instance, message };
}

/** What the store has of the first lines: they arrived `lag` after the engine recorded them, or before that. */
function stored(lines: readonly Written[], lag: number): StoredLine[] {
  return lines
    .slice(-comparedLines)
    .map((line, index) => ({ ...entry({ ...line, at: line.at + lag }), seq: index + 1, arrived: line.at + lag }));
}

const times = fc.array(fc.nat(50), { minLength: 1, maxLength: 60 });

test('nothing is stored twice and nothing is lost, wherever the agent ended', () => {
  fc.assert(
    fc.property(times, fc.nat(60), fc.integer({ min: -900, max: 2_000 }), fc.nat(10), (gaps, ended, lag, batch) => {
      let at = 1_000_000;
      const all = gaps.map((gap, index): Written => {
        at += gap;
        return { at, stream: index % 3 === 0 ? 'stderr' : 'stdout', message: `line ${index}` };
      });
      const known = Math.min(ended, all.length);
      const resume = new Resume(stored(all.slice(0, known), lag), 0);
      const news: Entry[] = [];
      for (let from = 0; from < all.length; from += batch + 1)
        news.push(...resume.push(all.slice(from, from + batch + 1).map(entry), true));
      news.push(...resume.end());
      expect(news.map(({ message }) => message)).toEqual(all.slice(known).map(({ message }) => message));
    }),
  );
});

test('a line that arrived before the time in its record is known, and one of a second later is new', () => {
  const seen: Written = { at: 1_000, stream: 'stdout', message: 'tick' };
  const again = { ...seen, at: 2_000 };
  const resume = new Resume(stored([seen], -900), 0);
  const news = [...resume.push([seen, again].map(entry), true), ...resume.end()];
  expect(news.map(({ at }) => at)).toEqual([again.at]);
});

test('equal lines are never stored twice, nor lost, however many of them the record still has', () => {
  const upTo50 = fc.integer({ min: 1, max: 50 });
  fc.assert(
    fc.property(upTo50, fc.nat(50), upTo50, (before, after, recorded) => {
      const all = Array.from({ length: before + after }, (_, index): Written => ({
        at: index * 100,
        stream: 'stdout',
        message: 'tick',
      }));
      const resume = new Resume(stored(all.slice(0, before), 5), 0);
      const record = all.slice(Math.max(0, before - recorded));
      const news = [...resume.push(record.map(entry), true), ...resume.end()];
      expect(news.length).toBe(after);
    }),
  );
});

test('a record of another process than what is stored is new as a whole', () => {
  const resume = new Resume(stored([{ at: 100, stream: 'stdout', message: 'of a former process' }], 0), 101);
  const news = resume.push([entry({ at: 50, stream: 'stdout', message: 'first' })], true);
  expect([...news, ...resume.end()].map(({ message }) => message)).toEqual(['first']);
});

test('live output ends what was held back', () => {
  const resume = new Resume(stored([{ at: 100, stream: 'stdout', message: 'a' }], 50), 0);
  expect(
    resume.push(
      [
        { at: 100, message: 'a' },
        { at: 140, message: 'b' },
      ].map((it) => entry({ ...it, stream: 'stdout' })),
      true,
    ),
  ).toEqual([]);
  const news = resume.push([entry({ at: 500, stream: 'stdout', message: 'c' })], false);
  expect(news.map(({ message }) => message)).toEqual(['b', 'c']);
});

test.each([
  ['a line that only looks as if it went on', ['Loading…'], ['later']],
  ['a part of a line that is whole in the record', ['Waiting done', 'later'], ['Waiting done', 'later']],
])('after whole lines that are older than the record that is read, there is no gap: %s', (_, recorded, left) => {
  const lines: Written[] = [
    { at: 1_000, stream: 'stdout', message: 'whole' },
    { at: 61_000, stream: 'stdout', message: recorded[0] === 'Loading…' ? 'Loading…' : 'Waiting…' },
  ];
  const resume = new Resume(stored(lines, 0), 500);
  const record = recorded.concat(recorded[0] === 'Loading…' ? ['later'] : []);
  const entries = record.map((message, n) => entry({ at: 61_000 + n * 5_000, stream: 'stdout', message }));
  const news = [...resume.push(entries, true), ...resume.end()];
  expect(news.map(({ message }) => message)).toEqual(left);
});

describe('a record from which the engine removed what is stored', () => {
  const gap = (from: number, to: number): string =>
    `Output between ${new Date(from).toISOString()} and ${new Date(to).toISOString()} is missing: the engine had removed it from its record while the agent was away`;

  test.each([
    ['though its lines may be as old', 9_000, 10_000],
    ['of which the first line is later', 60_000, 60_000],
  ])('%s, begins with a line that says so', (_, at, to) => {
    const lines: Written[] = [
      { at: 10_000, stream: 'stdout', message: 'kept' },
      { at: 10_000, stream: 'stderr', message: 'kept, too' },
    ];
    const resume = new Resume(stored(lines, 0), 10_000);
    const news = [...resume.push([entry({ at, stream: 'stdout', message: 'later' })], true), ...resume.end()];
    expect(news.map(({ stream, level, message }) => [stream, level, message])).toEqual([
      ['system', 'warn', gap(10_000, to)],
      ['stdout', 'info', 'later'],
    ]);
  });

  test('is not told of where its process is not known, or the record is empty', () => {
    const known = stored([{ at: 100, stream: 'stdout', message: 'a' }], 0);
    const later = entry({ at: 9_000, stream: 'stdout', message: 'b' });
    expect(new Resume(known, undefined).push([later], true)).toEqual([later]);
    expect(new Resume(known, 0).end()).toEqual([]);
  });
});

describe('parts of a line that was cut', () => {
  const resumed = (known: readonly string[], record: readonly string[]): string[] => {
    const at = 1_000;
    const of = (message: string): Written => ({ at, stream: 'stdout', message });
    const resume = new Resume(stored(known.map(of), 0), 0);
    const news = resume.push(
      record.map((message) => entry(of(message))),
      true,
    );
    return [...news, ...resume.end()].map(({ message }) => message);
  };

  test('that are the same in the record are known', () => {
    expect(resumed(['a', 'b…', '…c'], ['a', 'b…', '…c', 'd'])).toEqual(['d']);
    expect(resumed(['Loading…', '…'], ['Loading…', '…', 'd'])).toEqual(['d']);
  });

  test('lose nothing where the record has the whole line, and repeat no other one', () => {
    expect(resumed(['a', 'b…'], ['a', 'bc', 'd'])).toEqual(['bc', 'd']);
    expect(resumed(['a', 'b…', '…c', 'd'], ['a', 'bc', 'd', 'e'])).toEqual(['e']);
    expect(resumed(['30%…', '60%…'], ['100%', 'd'])).toEqual(['100%', 'd']);
  });
});
