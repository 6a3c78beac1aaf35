import { expect, test } from 'vitest';
import { judgeTriggers, readDockerfile } from '../../../agent/tasks/dockerfile.ts';

// Each text is as large as a Dockerfile may be. A reader that is not linear does not come to its end.
const most = 1024 * 1024;
const repeated = (text: string, chars = most): string => text.repeat(Math.ceil(chars / text.length));
const read = (text: string) => readDockerfile(Buffer.from(text, 'latin1'), {}, { kit: 28 });

test.each<[string, string, string]>([
  ['spaces within an instruction', `FROM a\nRUN a${repeated(' ')}b`, 'an instruction above 65000 characters'],
  ['tabs within a label', `FROM a\nLABEL a="${repeated('\t')}"`, 'an instruction above 65000 characters'],
  ['an instruction over many lines', `FROM a\nRUN ${repeated('a \\\n')}`, 'an instruction above 65000 characters'],
  ['spaces before what is no end', `FROM a\nRUN ${repeated(`${repeated(' ', 60_000)}\\\n`)}`, 'an instruction above'],
  ['a word before a control character', `FROM a\n${repeated('A', 60_000)} \rx`, 'control characters'],
  ['spaces in a directive', `# escape=${repeated(' ')}x`, 'an escape directive that is neither'],
  ['spaces in a directive before a control character', `#escape=${repeated(' ')}\rx`, 'an escape directive'],
  ['spaces in a comment before a control character', `#a=${repeated(' ')}\rx\nFROM a`, 'an instruction above'],
  ['spaces in the directive of a syntax', `# syntax=${repeated(' ')}x`, 'the line # syntax='],
  ['stages', repeated('FROM a\n', 14_000), 'more than 100 stages'],
  ['instructions', `FROM a\n${repeated('RUN a\n')}`, 'more than 2000 instructions'],
  ['here-documents', `FROM a\n${repeated('RUN <<A\nA\n')}`, 'more than 2000 instructions'],
  [
    'here-documents of one instruction',
    `FROM a\nRUN ${repeated('<<A ', 60_000)}\n${repeated('A\n', 10_000)}`,
    'its end',
  ],
  [
    'an argument that doubles',
    `ARG A=a\n${repeated('ARG A=$A$A\n', 20_000)}FROM $A`,
    'a base image that cannot be determined',
  ],
  ['arguments', `${repeated(`ARG ${repeated('A=a ', 60_000)}\n`, 900_000)}FROM $B`, 'a base image that cannot be'],
  [
    'images of mounts',
    `FROM a\n${Array.from({ length: 30 }, (_, n) => `COPY --from=b${n} / /\n`).join('')}`,
    '20 images',
  ],
])('SEC-08: a Dockerfile with too much of one thing is refused: %s', (_what, text, why) => {
  expect(() => read(text)).toThrow(why);
});

test.each([
  ['spaces at the end of lines', `FROM a\nRUN a${repeated(' ')}\n`, 'FROM a:latest\nRUN a\n'],
  ['a comment', `FROM a\n#${repeated(' ')}x\nRUN a`, 'FROM a:latest\nRUN a\n'],
  ['directives', `${repeated('#a=\n')}FROM a`, 'FROM a:latest\n'],
  ['empty lines', `FROM a\nRUN a\\\n${repeated(' \n')}b`, 'FROM a:latest\nRUN ab\n'],
  ['continuations', `FROM a\nRUN a${repeated('\\\n')}b`, 'FROM a:latest\nRUN ab\n'],
  [
    'digits that begin no here-document',
    `FROM a\nRUN ${'1'.repeat(60_000)}`,
    `FROM a:latest\nRUN ${'1'.repeat(60_000)}\n`,
  ],
  ['quotes in a label', `FROM a\nLABEL a=${'"'.repeat(60_000)}`, `FROM a:latest\nLABEL a=${'"'.repeat(60_000)}\n`],
])('SEC-08: a large Dockerfile is read to its end: %s', (_what, text, written) => {
  expect(read(text).text).toBe(written);
});

test('a here-document as large as a Dockerfile is read once, and nothing in it is an instruction', () => {
  const text = `FROM a\nRUN <<END\n${repeated('FROM b\n', most - 100)}END\n`;
  expect(read(text)).toMatchObject({
    text: text.replace('FROM a', 'FROM a:latest'),
    images: [{ reference: 'a:latest', before: [] }],
  });
});

test('a base image with more triggers than a build can have is refused', () => {
  const used = { reference: 'base:1', before: [] };
  expect(() =>
    judgeTriggers(
      used,
      Array.from({ length: 101 }, () => 'RUN a'),
    ),
  ).toThrow('more than 100 ONBUILD');
  expect(() => judgeTriggers(used, ['RUN a'.repeat(most)])).toThrow('above 65000 characters');
});
