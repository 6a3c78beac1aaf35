import { describe, expect, test } from 'vitest';
import { plainText, spansOf } from '../../web/parts/ansi.ts';

const esc = '\u001B';

describe('a line with the colours of a terminal', () => {
  test('is split where they change', () => {
    expect(spansOf(`plain ${esc}[31mred${esc}[0m plain`)).toEqual([
      { text: 'plain ', look: '' },
      { text: 'red', look: 'ansi-red' },
      { text: ' plain', look: '' },
    ]);
  });

  test('keeps what several sequences set until they are ended', () => {
    expect(spansOf(`${esc}[1m${esc}[32ma${esc}[22mb${esc}[39mc`)).toEqual([
      { text: 'a', look: 'ansi-green ansi-bold' },
      { text: 'b', look: 'ansi-green' },
      { text: 'c', look: '' },
    ]);
  });

  test('takes colours of 256 and of 16 million as the nearest name', () => {
    expect(spansOf(`${esc}[38;5;196mx`)[0]?.look).toBe('ansi-red');
    expect(spansOf(`${esc}[38;5;21mx`)[0]?.look).toBe('ansi-blue');
    expect(spansOf(`${esc}[38;5;240mx`)[0]?.look).toBe('ansi-grey');
    expect(spansOf(`${esc}[38;2;20;200;40mx`)[0]?.look).toBe('ansi-green');
    expect(spansOf(`${esc}[48;5;196;1mx`)[0]?.look).toBe('ansi-bold');
  });

  test('takes an empty sequence as a reset, and an unknown code as nothing', () => {
    expect(spansOf(`${esc}[31ma${esc}[mb${esc}[73mc`)).toEqual([
      { text: 'a', look: 'ansi-red' },
      { text: 'b', look: '' },
      { text: 'c', look: '' },
    ]);
  });

  test('is searched and saved without them', () => {
    expect(plainText(`${esc}[1;31merror${esc}[0m: no`)).toBe('error: no');
  });
});
