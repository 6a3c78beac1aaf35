import { expect, test } from 'vitest';
import { progressText } from '../../cli/progress.ts';

test('progress is in words, with the numbers that are known', () => {
  const none = { done: null, total: null, unit: null };
  expect(progressText({ step: 'building', done: 2, total: 7, unit: 'steps' })).toBe('building, 2 of 7 steps');
  expect(progressText({ step: 'copying', done: 4096, total: null, unit: 'bytes' })).toBe('copying, 4096 bytes');
  expect(progressText({ step: 'copying', done: 1, total: 2, unit: null })).toBe('copying, 1 of 2');
  expect(progressText({ ...none, step: 'waiting_for_engine' })).toBe('waiting for engine');
  expect(progressText({ ...none, step: 'copying', total: 7 })).toBe('copying');
});

test('a value of another form has no such words', () => {
  for (const other of [undefined, null, 'x', 3, {}, { step: 1 }, { code: 'x', message: 'y' }])
    expect(progressText(other)).toBeUndefined();
});
