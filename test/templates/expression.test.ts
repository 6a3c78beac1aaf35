import { expect, it } from 'vitest';
import { escapeExpression, parseExpression } from '../../api/templates/expression.ts';

it('splits a text into itself, variables and references, once', () => {
  expect(parseExpression('a ${B} $C $${D} ${E:-x y} ${databases.db.host}:${volumes.v.id}')).toEqual({
    parts: [
      'a ',
      { variable: 'B', fallback: undefined },
      ' $C ${D} ',
      { variable: 'E', fallback: 'x y' },
      ' ',
      { of: 'databases', name: 'db', attribute: 'host' },
      ':',
      { of: 'volumes', name: 'v', attribute: 'id' },
    ],
  });
});

it.each([
  ['${', 'has a ${ without its }'],
  ['${1A}', 'is no variable and no reference'],
  ['${A-b}', 'is no variable and no reference'],
  ['${functions.f.url}', 'is no variable and no reference'],
  ['${databases.db.secret}', 'of databases one can refer to host, port, user, password, name, url'],
  ['${volumes.v.host}', 'of volumes one can refer to id'],
])('refuses %s', (text, words) => {
  const parsed = parseExpression(text);
  expect('fault' in parsed && parsed.fault).toContain(words);
});

it('reads a text that was escaped as exactly that text', () => {
  const pieces = ['$', '{', '}', '$$', '${', '$${', 'A', 'databases.db.host', ':-', ' '];
  for (let seed = 0; seed < 2000; seed++) {
    const text = Array.from({ length: 6 }, (_, at) => pieces[(seed * 7 + at * 13 + (seed >> at)) % pieces.length]).join(
      '',
    );
    const parsed = parseExpression(escapeExpression(text));
    expect('parts' in parsed && parsed.parts).toEqual([text]);
  }
});
