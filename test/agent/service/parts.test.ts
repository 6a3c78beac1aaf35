import { expect, test } from 'vitest';
import { EventLog } from '../../../agent/service/event-log.ts';
import { blankMemory } from '../../../agent/service/memory.ts';
import { stepFailure } from '../../../agent/service/step-failure.ts';
import { laterPhase } from '../../../agent/service/service-report.ts';
import { RuntimeFailure } from '../../../agent/runtime/runtime.ts';
import { backoffMs, isCrashLoop, restartDelayMs } from '../../../agent/service/memory.ts';

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
  expect([2, 3].map((quickExits) => isCrashLoop({ ...blankMemory, quickExits }))).toEqual([false, true]);
});

test('phases go forward only, but for those that are ends', () => {
  expect(laterPhase('running', 'starting')).toBe('running');
  expect(laterPhase('starting', 'running')).toBe('running');
  expect(laterPhase('running', 'failed')).toBe('failed');
  expect(laterPhase('failed', 'starting')).toBe('starting');
});
