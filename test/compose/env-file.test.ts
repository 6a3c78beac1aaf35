import { expect, it } from 'vitest';
import { parseEnvFile } from '../../compose/env-file.ts';

const variables = new Map([
  ['NAME', 'value'],
  ['MONEY', '$5'],
]);
const read = (text: string, raw = false) => parseEnvFile(text, { variables, raw });

it.each<[string, string, Record<string, string>]>([
  ['values, comments and blank lines', '# first\n\nA=1\n  B = two words  \n#C=3\n', { A: '1', B: 'two words' }],
  ['lines of other systems, and a mark at the beginning', '\uFEFFA=1\r\nB=2\r\n', { A: '1', B: '2' }],
  ['export', 'export A=1\nexport  B=2', { A: '1', B: '2' }],
  ['a comment after a value, and a # within one', 'A=1 # one\nB=1#2', { A: '1', B: '1#2' }],
  ['single quotes, in which nothing is replaced', `A='$NAME \\n #'`, { A: '$NAME \\n #' }],
  ['double quotes with escapes and variables', `A="a\\n\\"\${NAME}\\" \\$NAME" # x`, { A: 'a\n"value" $NAME' }],
  ['variables and their defaults', 'A=${NAME}-${NONE:-none}', { A: 'value-none' }],
  ['a value with a dollar sign that a variable has', 'A=$MONEY', { A: '$5' }],
  ['a name alone, which passes the variable on', 'NAME\nNONE', { NAME: 'value' }],
  ['an empty value', 'A=\nB=""', { A: '', B: '' }],
  [
    'names that only programs read',
    'discovery.type=one\nexport MY-KEY=2\n1A=3',
    { 'discovery.type': 'one', 'MY-KEY': '2', '1A': '3' },
  ],
  ['the last of two', 'A=1\nA=2', { A: '2' }],
])('reads %s', (_, text, env) => {
  expect(read(text)).toEqual({ env });
});

it('has values as they are written where the format is raw', () => {
  expect(read(`A="$NAME" # x\nB='`, true)).toEqual({ env: { A: '"$NAME" # x', B: "'" } });
});

it.each([
  ['a line that is no variable', 'A=1\n- B', 'is not NAME=value in line 2'],
  ['a name that is none', 'A\u200bB=1', 'is not NAME=value in line 1'],
  ['a word alone that may be no name', '"A":1', 'is not NAME=value in line 1'],
  ['a name that is too long', `${'x'.repeat(257)}=1`, 'is not NAME=value in line 1'],
  ['a quote that does not end', 'A="x', 'has a quote in line 1'],
  ['something behind a quote', `A='x'y`, 'has a quote in line 1'],
  ['a variable that must be there', 'A=${NONE:?is needed}', 'in line 1'],
  ['a value that is too long', `A=${'x'.repeat(32 * 1024 + 1)}`, 'has a value in line 1 that must be at most 32 KiB'],
  ['too many variables', Array.from({ length: 501 }, (_, n) => `A${n}=1`).join('\n'), 'more than 500 variables'],
  ['a NUL', 'A=\0', 'has a value in line 1 that must be text without NUL'],
])('refuses %s', (_, text, fault) => {
  expect(read(text)).toEqual({ fault: expect.stringContaining(fault) });
});
