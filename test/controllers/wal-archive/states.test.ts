import { expect, test } from 'vitest';
import { dueBase, gapsIn, isArchiving, observedOf } from '../../../controllers/wal-archive/states.ts';
import { postgres } from '../../../databases/postgres.ts';
import { segmentAt } from '../../../databases/wal.ts';
import { revision } from '../../../store/revision.ts';

const segment = (position: number): string => segmentAt({ timeline: 1, position });
const names = (...positions: number[]): string[] => positions.map(segment);

test.each<[string, string[], [number, number][]]>([
  ['all are there', names(4, 5, 6, 7), []],
  ['in another order, with others beside', [...names(7, 3, 5, 4, 9, 6), '00000002.history', segment(4)], []],
  ['one is missing', names(4, 6, 7), [[4, 6]]],
  ['the first one is missing', names(5, 6, 7), [[3, 5]]],
  ['the last ones are missing', names(4, 5), [[5, 8]]],
  [
    'some are missing in two places',
    names(4, 6),
    [
      [4, 6],
      [6, 8],
    ],
  ],
  ['none is there', [], [[3, 8]]],
  ['those of another timeline do not count', [segmentAt({ timeline: 2, position: 5 }), ...names(4, 6, 7)], [[4, 6]]],
])('gaps where %s', (_, there, gaps) => {
  const found = gaps.map(([after, before]) => ({ after: segment(after), before: segment(before) }));
  expect(gapsIn(there, segment(4), segment(7))).toEqual(found);
});

test('many gaps are told as a bounded number, and none of them is forgotten', () => {
  const every = Array.from({ length: 500 }, (_, index) => 2 * index);
  const gaps = gapsIn(names(...every), segment(0), segment(998));
  expect(gaps).toHaveLength(50);
  expect(gaps.at(-1)).toEqual({ after: segment(98), before: segment(998) });
});

test('a database that has parameters of its user archives, and one that was begun otherwise does not', () => {
  const archive = { desired: { engine: { type: 'postgres', version: '17' } } };
  const instance = (command: readonly string[]) => ({
    meta: { generation: 1 },
    desired: { spec: { type: 'service', command } },
    observed: { ready: true, observedGeneration: 1 },
  });
  const of = (command: readonly string[]): boolean =>
    isArchiving({ archive, instance: instance(command) } as unknown as Parameters<typeof isArchiving>[0]);
  const wanted = postgres.archive?.archiving('17') ?? [];
  expect(of(wanted)).toBe(true);
  expect(of([...wanted, '-c', 'max_connections=42'])).toBe(true);
  expect(of(['postgres', '-c', 'max_connections=42'])).toBe(false);
  expect(of(wanted.slice(0, -1))).toBe(false);
});

test('the last segment that is known is taken back by no report', () => {
  const world = (reported: string | undefined) => ({
    archive: {
      meta: {},
      desired: { ended: false },
      observed: { phase: 'archiving', gaps: [], last_segment: segment(9) },
    },
    sender: { observed: { archive: { waiting: 0, fill_percent: 0, last_segment: reported } } },
  });
  const last = (reported: string | undefined): string | undefined =>
    observedOf(world(reported) as unknown as Parameters<typeof observedOf>[0], false).last_segment;
  expect([last(segment(3)), last(undefined), last(segment(10))]).toEqual([segment(9), segment(9), segment(10)]);
});

test('what was shown is taken back only by a server whose next segment would be written over', () => {
  const [earlier, later] = ['2030-01-01T12:00:00.000Z', '2030-01-02T11:59:00.000Z'];
  const stand = (last: number, until: string) => ({
    last_segment: segment(last),
    until,
    until_segment: segment(last),
    sent_at: until,
  });
  const shown = (last: number) => {
    const world = {
      archive: {
        meta: {},
        desired: { ended: false },
        observed: { phase: 'archiving', gaps: [], ...stand(1500, later) },
      },
      sender: { observed: { archive: { waiting: 0, fill_percent: 0, ...stand(last, earlier) } } },
    };
    const { until, until_segment, sent_at } = observedOf(world as unknown as Parameters<typeof observedOf>[0], false);
    return [until, until_segment, sent_at];
  };
  expect([shown(60), shown(1435), shown(1436)]).toEqual([
    [later, segment(1500), later],
    [later, segment(1500), later],
    [earlier, segment(1436), earlier],
  ]);
});

/** An archive of a database that serves, at 2030-01-10. */
const archiving = (fields: object) =>
  ({
    archive: {
      meta: { id: 'log' },
      desired: { ended: false, engine: { type: 'postgres', version: '17' } },
      observed: { phase: 'archiving', gaps: [], until: '2030-01-10T00:00:00.000Z' },
    },
    database: { meta: {}, desired: { archive: { id: 'log', retention_count: 7 } } },
    destination: { meta: {} },
    instance: {
      meta: { generation: 1 },
      desired: { spec: { type: 'service', command: postgres.archive?.archiving('17') } },
      observed: { ready: true, observedGeneration: 1 },
    },
    sender: { observed: {} },
    bases: [],
    now: new Date('2030-01-10T00:00:00.000Z'),
    ...fields,
  }) as unknown as Parameters<typeof dueBase>[0];

test('no base backup is made while a segment is refused, as its log would stay on its server', () => {
  const due = (error: object | undefined) => dueBase(archiving({ sender: { observed: { error } } })) !== undefined;
  expect([due(undefined), due({ code: 'bucket_away' }), due({ code: 'archive_refused' })]).toEqual([true, true, false]);
});

test.each(['completed', 'failed'])('a clock that was ahead keeps no base backup back after one that is %s', (phase) => {
  const base = (nth: number, at: string, ended: string) => ({
    meta: { id: `base-${nth}`, createdRevision: revision(nth) },
    desired: { requested_at: at },
    observed: { phase: ended, finished_at: at },
  });
  const due = (...bases: object[]) => dueBase(archiving({ bases })) !== undefined;
  const [before, ahead, again] = ['2030-01-08T00:00:00.000Z', '2030-01-17T00:00:00.000Z', '2030-01-09T23:59:00.000Z'];
  expect(due(base(1, before, 'completed'), base(2, ahead, phase))).toBe(true);
  expect(due(base(1, before, 'completed'), base(2, ahead, phase), base(3, again, phase))).toBe(false);
  // clocks of replicas differ a little
  expect(due(base(1, before, 'completed'), base(2, '2030-01-10T00:01:00.000Z', phase))).toBe(false);
});
