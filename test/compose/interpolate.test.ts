import fc from 'fast-check';
import { expect, test } from 'vitest';
import { interpolate } from '../../compose/interpolate.ts';

const variables = new Map([
  ['A', 'one'],
  ['EMPTY', ''],
  ['B', '$A ${A}'],
]);
const read = (text: string) => interpolate(text, variables);

test.each([
  ['$A', 'one'],
  ['${A}', 'one'],
  ['$A-$A', 'one-one'],
  ['$$A', '$A'],
  ['$${A}', '${A}'],
  ['$$$A', '$one'],
  ['${A:-two}', 'one'],
  ['${NONE:-two}', 'two'],
  ['${NONE-two}', 'two'],
  ['${EMPTY:-two}', 'two'],
  ['${EMPTY-two}', ''],
  ['${NONE:-}', ''],
  ['${NONE:-${A}}', 'one'],
  ['${NONE:-a${NONE:-b}c}', 'abc'],
  ['${NONE:-$$}', '$'],
  ['${A:+set}', 'set'],
  ['${NONE:+set}', ''],
  ['${EMPTY+set}', 'set'],
  ['${EMPTY:+set}', ''],
  ['${A:?is needed}', 'one'],
  ['${EMPTY?is needed}', ''],
  ['$B', '$A ${A}'],
  ['{$A}', '{one}'],
  ['no variable', 'no variable'],
])('%s is %s', (text, result) => {
  expect(read(text)).toEqual({ text: result, blank: [], referring: [] });
});

test.each([
  ['$', 'begins no variable'],
  ['$ A', 'begins no variable'],
  ['${}', 'begins no variable'],
  ['${1}', 'begins no variable'],
  ['${A', 'does not end with }'],
  ['${A!}', 'does not end with }'],
  ['${NONE:-a', 'without its }'],
  ['${NONE:?tell it}', 'needs the variable NONE: tell it'],
  ['${NONE?}', 'needs the variable NONE'],
  ['${EMPTY:?tell it}', 'needs the variable EMPTY: tell it'],
])('%s is a fault', (text, fault) => {
  expect(read(text)).toEqual({ fault: expect.stringContaining(fault) });
});

test('a variable that nobody has is empty and named', () => {
  expect(read('a$NONE')).toEqual({ text: 'a', blank: ['NONE'], referring: [] });
  expect(read('${A:-$NONE}')).toEqual({ text: 'one', blank: [], referring: [] });
});

test('a text in which each dollar sign is doubled stays as it is', () => {
  fc.assert(
    fc.property(fc.string({ unit: 'grapheme' }), (text) => {
      expect(read(text.replaceAll('$', '$$$$'))).toEqual({ text, blank: [], referring: [] });
    }),
  );
});

test('what a variable has is not read again', () => {
  fc.assert(
    fc.property(fc.string(), (value) => {
      expect(interpolate('<${X}>', new Map([['X', value]]))).toEqual({ text: `<${value}>`, blank: [], referring: [] });
    }),
  );
});
