import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { clean, LineSplitter, maxLineBytes } from '../../../agent/logs/clean.ts';
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
      expect(lines.slice(0, -1).join('')).toBe(whole);
      for (const line of lines) expect(Buffer.byteLength(line)).toBeLessThanOrEqual(maxLineBytes);
    }
  });

  test('holds no more than one longest line of output that has no line feed', () => {
    const splitter = new LineSplitter();
    const lines = Array.from({ length: 100 }, () => splitter.push(Buffer.alloc(10_000, 0x61))).flat();
    expect(lines.join('').length).toBeGreaterThan(1_000_000 - maxLineBytes);
  });
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
