import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { clean, cutMark, LineSplitter, maxLineBytes } from '../../../agent/logs/clean.ts';
import { guessLevel } from '../../../agent/logs/level.ts';

function split(bytes: Uint8Array, cuts: readonly number[]): string[] {
  const splitter = new LineSplitter();
  const ends = [...new Set([...cuts.map((cut) => cut % (bytes.length + 1)), bytes.length])].toSorted((a, b) => a - b);
  const lines: string[] = [];
  let from = 0;
  for (const end of ends) {
    lines.push(...splitter.push(bytes.subarray(from, end)));
    from = end;
  }
  return [...lines, ...splitter.end()];
}

describe('the line splitter', () => {
  test('gives the same lines wherever the bytes are cut', () => {
    const text = fc.string({ unit: fc.constantFrom('a', 'é', '漢', '😀', ' ', '\n', '\t'), maxLength: 200 });
    fc.assert(
      fc.property(text, fc.array(fc.nat(400)), (whole, cuts) => {
        const expected = whole === '' ? [] : whole.replace(/\n$/, '').split('\n');
        expect(split(Buffer.from(whole), cuts)).toEqual(expected);
      }),
    );
  });

  test('replaces what is no UTF-8 and never fails', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 300 }), fc.array(fc.nat(300)), (bytes, cuts) => {
        // oxlint-disable-next-line no-control-regex -- they are what must not be left
        for (const line of split(bytes, cuts)) expect(line).not.toMatch(/[\u0000-\u0008\u000a-\u001f\u007f-\u009f]/);
      }),
    );
    expect(split(Buffer.from([0x61, 0xff, 0x62, 0x0a]), [])).toEqual(['a\ufffdb']);
  });

  test.each(['a', '漢', '😀'])('cuts long lines of %s between characters and loses none', (character) => {
    const whole = character.repeat(30_000);
    for (const cuts of [[], [10_000, 20_001], [maxLineBytes]]) {
      const lines = split(Buffer.from(`${whole}\nnext\n`), cuts);
      expect(lines.at(-1)).toBe('next');
      expect(lines.slice(0, -1).join('').replaceAll(`${cutMark}${cutMark}`, '')).toBe(whole);
      for (const line of lines) expect(Buffer.byteLength(line)).toBeLessThanOrEqual(maxLineBytes);
    }
  });

  test('holds no more than one longest line of output that has no line feed', () => {
    const splitter = new LineSplitter();
    const lines = Array.from({ length: 100 }, () => splitter.push(Buffer.alloc(10_000, 0x61))).flat();
    expect(lines.join('').length).toBeGreaterThan(1_000_000 - maxLineBytes);
  });

  test('marks each place where it cuts a line, and no other one', () => {
    const whole = 'x'.repeat(2 * 1024 * 1024);
    for (const cuts of [[], [1_000_000], [100, maxLineBytes + 100, 1_999_999]]) {
      const [first = '', ...others] = split(Buffer.from(`${whole}\nnext\n`), cuts);
      expect(first).toMatch(/^x+…$/);
      expect(others.slice(0, -2).every((line) => /^…x+…$/.test(line))).toBe(true);
      expect(others.at(-2)).toMatch(/^…x+$/);
      expect(others.at(-1)).toBe('next');
    }
  });

  test('shows what has come of a line, and then the rest of it', () => {
    const splitter = new LineSplitter();
    const name = Buffer.from('name of 漢');
    expect(splitter.push(name.subarray(0, -1))).toEqual([]);
    expect(splitter.isOpen).toBe(true);
    expect(splitter.flush()).toEqual(['name of …']);
    expect(splitter.flush()).toEqual([]);
    expect(splitter.push(Buffer.concat([name.subarray(-1), Buffer.from('?\nnext\n')]))).toEqual(['…漢?', 'next']);
    splitter.push(Buffer.from('whole'));
    expect(splitter.flush()).toEqual(['whole…']);
    expect(splitter.push(Buffer.from('\n'))).toEqual([]);
    expect(splitter.end()).toEqual([]);
  });

  test('gives the last state of a line that is written over, and holds no other one', () => {
    const steps = Array.from({ length: 5000 }, (_, index) => `\r${index} of 5000`);
    const splitter = new LineSplitter();
    expect(splitter.push(Buffer.from('begun'))).toEqual([]);
    expect(splitter.flush()).toEqual(['begun…']);
    expect(steps.flatMap((step) => splitter.push(Buffer.from(step)))).toEqual([]);
    expect(splitter.flush()).toEqual(['4999 of 5000…']);
    expect(splitter.push(Buffer.from('\rdone\r\nnext\r\n'))).toEqual(['done', 'next']);
    expect(split(Buffer.from('10%\r50%\r'), [])).toEqual(['50%']);
  });

  test('shows progress whose carriage return comes last', () => {
    const splitter = new LineSplitter();
    splitter.push(Buffer.from('10%\r'));
    expect(splitter.flush()).toEqual(['10%…']);
    expect(splitter.flush()).toEqual([]);
    expect(splitter.push(Buffer.from('20%\n'))).toEqual(['20%']);
  });
});

test('of a line that is written over by carriage returns the last state stays', () => {
  expect(clean('10%\r50%\r\u001b[K100%\r\r\nnext\r\n')).toBe('100%\nnext\n');
  expect(clean('\r\r')).toBe('');
  expect(clean('100%\r\u001b[K')).toBe('100%');
});

test('colours, cursor moves, titles and carriage returns are taken out, tabs stay', () => {
  expect(clean('\u001b[1;31mred\u001b[0m\tplain\r')).toBe('red\tplain');
  expect(clean('\u001b]0;title\u0007text\u001b[2K\u001b(B!')).toBe('text!');
  expect(clean('\u0000a\u0007b\u009bc')).toBe('abc');
});

test.each([
  ['plain text', 'info'],
  ['ERROR: cannot connect', 'error'],
  ['2026-01-01T00:00:00Z WARN slow query', 'warn'],
  ['[debug] cache miss', 'debug'],
  ['error: no such file', 'error'],
  ['panic: runtime error', 'error'],
  ['level=warn msg="disk"', 'warn'],
  ['{"level":"error","msg":"x"}', 'error'],
  ['{"level":30,"msg":"an ERROR in words"}', 'info'],
  ['{"level":50,"msg":"x"}', 'error'],
  ['no errors found', 'info'],
  ['TERRORISE', 'info'],
] as const)('the level of %j is guessed to be %s', (line, level) => {
  expect(guessLevel(line)).toBe(level);
});
