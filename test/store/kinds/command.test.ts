import { expect, test } from 'vitest';
import { parseCommand } from '../../../store/kinds/command.ts';

test.each([
  ['serve', ['serve']],
  ['  serve   --port 80 ', ['serve', '--port', '80']],
  ['sh -c "echo hi"', ['sh', '-c', 'echo hi']],
  [`sh -c 'echo "hi"'`, ['sh', '-c', 'echo "hi"']],
  ['sh -c "echo \\"hi\\""', ['sh', '-c', 'echo "hi"']],
  ['a\\ b c', ['a b', 'c']],
  [`'a\\b'`, ['a\\b']],
  ['a"b"c', ['abc']],
  ['serve ""', ['serve', '']],
])('%s has the words %j', (text, words) => {
  expect(parseCommand(text)).toEqual({ words });
});

test.each([
  ['sh -c "echo hi', 'Must close every quote: " is open'],
  ["sh -c 'echo hi", "Must close every quote: ' is open"],
  ['serve \\', 'Must not end with a backslash'],
  ['"" serve', 'Must begin with a program'],
  ['   ', 'Must begin with a program'],
])('%s is no command', (text, fault) => {
  expect(parseCommand(text)).toEqual({ fault });
});
