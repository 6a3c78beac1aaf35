import { expect, test } from 'vitest';
import { labelledDockerfile } from '../../../agent/tasks/labelled-dockerfile.ts';

const labels = { 'setpoint.server': '0123-ab', 'org.opencontainers.image.revision': 'c0ffee' };

test('labels are one instruction more', () => {
  const text = labelledDockerfile(Buffer.from('FROM x\r\nRUN true'), labels)?.toString();
  expect(text).toBe('FROM x\r\nRUN true\nLABEL setpoint.server=0123-ab org.opencontainers.image.revision=c0ffee\n');
});

test('other bytes than text stay what they are', () => {
  const bytes = Buffer.from([0x46, 0xff, 0xc3, 0xa9, 0x0a]);
  expect(labelledDockerfile(bytes, labels)?.subarray(0, bytes.length)).toEqual(bytes);
});

test.each([
  ['goes on in the next line', 'FROM x\nRUN a \\'],
  ['goes on after a comment and an empty line', 'FROM x\nRUN a \\ \n  # why\n\n'],
  ['goes on by another escape', '# escape=`\nFROM x\nRUN a `\n'],
  ['is a here-document', 'FROM x\nRUN <<END\necho\n'],
])('nothing is appended to an instruction that %s', (_what, text) => {
  expect(labelledDockerfile(Buffer.from(text), labels)).toBeUndefined();
});

test.each(['with space', '"', '$HOME', 'a\nRUN evil', ''])(
  'a value that is no plain word is not written: %j',
  (value) => {
    expect(labelledDockerfile(Buffer.from('FROM x'), { tenant: value })).toBeUndefined();
  },
);
