import { expect, test } from 'vitest';
import { hiding } from '../../../agent/runtime/docker/buildkit/hiding.ts';

const secret = 'h?nter/2 & "más>>"';
const { hide } = hiding([secret, 'short', `first line\r\n  second line \n`]);
const base64 = (text: string): string => Buffer.from(text).toString('base64');

test.each([
  ['as it is', secret],
  ['in base64', base64(secret)],
  ['in base64 with its line feed', base64(`${secret}\n`)],
  ['in base64 for addresses', Buffer.from(secret).toString('base64url')],
  ['encoded for addresses', encodeURIComponent(secret)],
  ['encoded for addresses in lower case', encodeURIComponent(secret).replaceAll(/%../g, (it) => it.toLowerCase())],
  ['as a field of a form', new URLSearchParams({ a: secret }).toString().slice(2)],
  ['as a line of several', 'second line'],
  ['as a line of several in base64', base64('second line')],
])('a secret of a build is hidden %s', (_how, text) => {
  expect(hide(`a ${text} b`)).toBe('a ******** b');
});

test.each([0, 1, 2, 3])('a secret is hidden in the base64 of more than itself, %i bytes before it', (before) => {
  const [start, end] = ['x'.repeat(before), ':and more'];
  const shown = Buffer.from(hide(base64(`${start}${secret}${end}`)).replace('********', ''), 'base64').toString();
  expect(hide(base64(`${start}${secret}${end}`))).toContain('********');
  expect(shown).not.toMatch(/nter|más/);
});

test('a key is hidden in base64 that is cut into lines', () => {
  const key = Array.from({ length: 20 }, (_, n) => `${n}`.repeat(40)).join('\n');
  const lines = base64(key).match(/.{1,76}/g) ?? [];
  expect(lines.map(hiding([key]).hide).every((line) => line === '********' || line.length < 6)).toBe(true);
});

test('a secret that is no text of Unicode is hidden, and a word of few characters is not', () => {
  const lone = 'secret \ud800 half';
  expect(hiding([lone]).hide(`a ${lone}`)).toBe('a ********');
  expect(hide('short')).toBe('short');
  expect(hiding([])).toMatchObject({ longest: 0 });
});
