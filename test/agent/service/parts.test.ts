import { describe, expect, test } from 'vitest';
import { EventLog } from '../../../agent/service/event-log.ts';
import { blankMemory } from '../../../agent/service/memory.ts';
import { stepFailure } from '../../../agent/service/step-failure.ts';
import { laterPhase } from '../../../agent/service/service-report.ts';
import { RuntimeFailure } from '../../../agent/runtime/runtime.ts';
import { backoffMs, died, forgivenAt, isCrashLoop, killed, restartDelayMs } from '../../../agent/service/memory.ts';

test('events stay until a report that had them was acknowledged, the newest at most', () => {
  const log = new EventLog('one');
  for (let n = 0; n < 20; n += 1) log.add({ type: 'warning', reason: `R${n}`, message: '', drift: true });
  const pending = log.pending!;
  expect(pending.items.map(({ seq }) => seq)).toEqual(Array.from({ length: 16 }, (_, index) => index + 5));
  log.add({ type: 'normal', reason: 'Later', message: '', drift: false });
  log.acknowledge({ ...pending, source: 'another' });
  expect(log.pending?.items).toHaveLength(16);
  log.acknowledge(pending);
  expect(log.pending?.items.map(({ reason }) => reason)).toEqual(['Later']);
  log.acknowledge(log.pending);
  expect(log.pending).toBeUndefined();
});

test('a failed step is tried again later and later, and reported without details of the machine', () => {
  const retryable = new RuntimeFailure('image_pull_failed', 'Registry away', { retryable: true });
  const first = stepFailure('create', retryable, undefined, 1_000);
  expect(first).toEqual({
    step: 'create',
    code: 'image_pull_failed',
    message: 'Registry away',
    final: false,
    tries: 1,
    until: 2_000,
  });
  const third = stepFailure('create', retryable, stepFailure('create', retryable, first, 2_000), 4_000);
  expect(third).toMatchObject({ final: true, tries: 3, until: 8_000 });
  const final = new RuntimeFailure('image_not_found', 'None', { retryable: false });
  const pulls = (tries: number) => ({ ...first, step: 'resolveImage', tries });
  expect([5, 6].map((tries) => stepFailure('resolveImage', retryable, pulls(tries), 0).final)).toEqual([false, true]);
  expect(stepFailure('create', final, undefined, 0)).toMatchObject({ final: true, until: 30_000 });
  const full = new Error('Cannot append to /secret/path', { cause: Object.assign(new Error(), { code: 'ENOSPC' }) });
  expect(stepFailure('create', full, undefined, 0)).toMatchObject({
    code: 'no_space',
    message: 'The disk of the server is full: free space on it',
  });
  expect(stepFailure('create', new TypeError('x is undefined'), undefined, 0).code).toBe('runtime_unavailable');
  expect([1, 2, 3, 4, 7, 8, 9, 100].map(restartDelayMs)).toEqual([
    1_000, 2_000, 10_000, 20_000, 160_000, 300_000, 300_000, 300_000,
  ]);
  expect([1, 2, 3, 8, 9, 10, 100].map(backoffMs)).toEqual([1_000, 2_000, 4_000, 128_000, 256_000, 300_000, 300_000]);
});

test('three quick exits in a row are a crash loop', () => {
  expect([2, 3].map((quickExits) => isCrashLoop({ ...blankMemory, quickExits }, 0))).toEqual([false, true]);
});

describe('exits after stable runs', () => {
  const minute = 60_000;
  const loops = (minutes: readonly number[], now: number, quick: readonly number[] = []): boolean => {
    const ends = minutes.map((at) => ({ at: at * minute, lastedMs: minute, isQuick: quick.includes(at) }));
    return isCrashLoop({ ...blankMemory, ends }, now * minute);
  };
  test.each([
    ['three within ten minutes are a crash loop', [0, 4, 8], 8, true],
    ['two are none', [0, 4], 4, false],
    ['three within a longer time are none', [0, 6, 12], 12, false],
    ['five within an hour are one', [0, 12, 24, 36, 48], 48, true],
    ['four within an hour are none', [0, 15, 30, 45], 45, false],
    ['of which one is ten minutes old are one no more', [0, 4, 8], 10, false],
  ] as const)('%s', (_name, minutes, now, is) => {
    expect(loops(minutes, now)).toBe(is);
  });

  test('count with quick ones in between, and a bad start that is over does not count', () => {
    expect(loops([0, 1, 2, 3], 3, [1, 3])).toBe(true);
    expect(loops([0, 1, 2], 3, [1, 2])).toBe(false);
  });

  test.each([
    [1, 10],
    [12, 18],
    [1_000, 30],
  ])('with a last life of %i minutes are a crash loop no more after %i minutes of running on', (life, recovered) => {
    const ends = [0, 1, 2, 3, 4].map((at) => ({ at: at * minute, lastedMs: life * minute, isQuick: false }));
    const run = { container: 'c1', startedAt: '', since: 4 * minute, engineRestarts: 0 };
    const of = { ...blankMemory, ends, run };
    const until = (4 + recovered) * minute;
    expect([until - 1, until].map((now) => isCrashLoop(of, now))).toEqual([true, false]);
    expect(forgivenAt(of, until - 1)).toBe(until);
  });

  test('are forgotten at the time at which they are no crash loop any more', () => {
    const ends = [0, 4, 8].map((at) => ({ at: at * minute, lastedMs: minute, isQuick: false }));
    expect(forgivenAt({ ...blankMemory, ends }, 8 * minute)).toBe(10 * minute);
    expect(forgivenAt({ ...blankMemory, ends }, 10 * minute)).toBeUndefined();
  });
});

test('the end that the engine tells of is that of the exit without a code, or of the process that runs', () => {
  const startedAt = '2030-01-01T00:00:10Z';
  const run = { container: 'c1', startedAt, since: 0, engineRestarts: 1 };
  const before = { exits: 0, quickExits: 0, ends: [] };
  const exit = {
    container: 'c1',
    startedAt: '',
    code: undefined,
    outOfMemory: false,
    byEngine: true,
    series: '',
    before,
  };
  const at = (text: string) => ({ container: 'c1', at: Date.parse(text), code: 7 });
  const of = { ...blankMemory, run, exit };
  expect(died(of, at('2030-01-01T00:00:09Z')).exit?.code).toBe(7);
  const later = at('2030-01-01T00:00:11Z');
  expect(died(of, later)).toEqual({ ...of, death: later });
});

test('a process that was killed for memory is counted once, however often the engine tells of it', () => {
  const now = { monotonic: 5, wall: new Date(0) };
  const once = killed(blankMemory, { container: 'c1', at: 1 }, now);
  expect(killed(once, { container: 'c1', at: 1 }, now)).toBe(once);
  expect(killed(once, { container: 'c1', at: 2 }, now).kills).toMatchObject({ count: 2 });
  expect(killed(once, { container: 'c2', at: 2 }, now).kills).toMatchObject({ container: 'c2', count: 1 });
});

test('phases go forward only, but for those that are ends', () => {
  expect(laterPhase('running', 'starting')).toBe('running');
  expect(laterPhase('starting', 'running')).toBe('running');
  expect(laterPhase('running', 'failed')).toBe('failed');
  expect(laterPhase('failed', 'starting')).toBe('starting');
});
