import { describe, expect, test } from 'vitest';
import { bytesText, durationValue, memoryValue, parseBytes, parseCpu, parseDuration } from '../../web/parts/units.ts';

describe('memory', () => {
  test.each([
    ['512m', 512 * 1024 ** 2],
    ['1.5g', 1536 * 1024 ** 2],
    ['512 MB', 512 * 1024 ** 2],
    ['2GiB', 2 * 1024 ** 3],
    ['1,5g', 1536 * 1024 ** 2],
    ['4096', 4096],
  ])('%s is read', (text, bytes) => {
    expect(parseBytes(text)).toBe(bytes);
  });

  test.each(['', 'm', 'lots', '1.5.2g', '-1g', '5x'])('"%s" is not read', (text) => {
    expect(parseBytes(text)).toBeUndefined();
  });

  test('is sent as the API takes it', () => {
    expect(memoryValue('1.5 GB')).toBe('1536m');
    expect(memoryValue('2g')).toBe('2g');
    expect(memoryValue('1000')).toBe('1000b');
    expect(memoryValue('none')).toBeUndefined();
  });

  test('is shown in binary units', () => {
    expect([0, 1023, 1024, 1536, 12_884_901_888].map(bytesText)).toEqual([
      '0 B',
      '1023 B',
      '1 KiB',
      '1.5 KiB',
      '12 GiB',
    ]);
  });
});

test('cores are read from 0.01 to 256', () => {
  expect(['0.5', '2', '500m', '0,25'].map(parseCpu)).toEqual([0.5, 2, 0.5, 0.25]);
  expect(['0', '0.001', '257', 'many', ''].map(parseCpu)).toEqual([
    undefined,
    undefined,
    undefined,
    undefined,
    undefined,
  ]);
});

test('durations are read, and written so that they are read again', () => {
  expect(['30s', '15m', '1h 30m', '7d', '2w', '90', '5min'].map(parseDuration)).toEqual([
    30, 900, 5400, 604_800, 1_209_600, 90, 300,
  ]);
  expect(['', 'soon', '5 years', '-3s'].map(parseDuration)).toEqual([undefined, undefined, undefined, undefined]);
  for (const seconds of [0, 59, 3600, 5400, 90_061]) expect(parseDuration(durationValue(seconds))).toBe(seconds);
});
