import { expect, test } from 'vitest';
import { writeMessage } from '../../../agent/runtime/docker/buildkit/protobuf.ts';
import { hiding } from '../../../agent/runtime/docker/buildkit/hiding.ts';
import { StepLog } from '../../../agent/runtime/docker/buildkit/step-log.ts';
import { readTrace } from '../../../agent/runtime/docker/buildkit/trace.ts';

const time = (seconds: number): Buffer =>
  writeMessage([
    [1, Math.floor(seconds)],
    [2, Math.round((seconds % 1) * 1e9)],
  ]);
const vertex = (digest: string, name: string, from?: number, to?: number, more: [number, number | string][] = []) =>
  [
    1,
    writeMessage([
      [1, digest],
      [3, name],
      ...(from === undefined ? [] : [[5, time(from)] as const]),
      ...(to === undefined ? [] : [[6, time(to)] as const]),
      ...more,
    ]),
  ] as const;
const output = (digest: string, at: number, text: string | Buffer, stream = 1) =>
  [
    3,
    writeMessage([
      [1, digest],
      [2, time(at)],
      [3, stream],
      [4, text],
    ]),
  ] as const;

type Sent = (readonly (readonly [number, Buffer])[])[];
interface Logged {
  lines: string[];
  log: StepLog;
  steps: string[];
}

const logged = (...traces: Sent): Logged => loggedWithout([], ...traces);

function loggedWithout(secrets: readonly string[], ...traces: Sent): Logged {
  const [lines, steps]: [string[], string[]] = [[], []];
  const log = new StepLog(
    (text) => lines.push(text),
    (done, total) => steps.push(`${done}/${total}`),
    hiding(secrets),
  );
  for (const trace of traces) log.add(readTrace(writeMessage(trace)));
  log.end();
  return { lines, log, steps };
}

test('lines of steps that run side by side bear the number of their step, and are whole', () => {
  const euro = Buffer.from('€');
  const { lines, steps } = logged(
    [vertex('a', '[one 1/1] RUN a', 10), vertex('b', '[two 1/2] RUN b', 10), vertex('c', '[two 2/2] RUN c')],
    [output('a', 10.5, 'first'), output('b', 10.6, 'other\r\n'), output('a', 11, ' half\nsecond\n')],
    [output('b', 12, euro.subarray(0, 1)), output('b', 12, 'error', 2), output('b', 13, euro.subarray(1))],
    [
      vertex('a', '[one 1/1] RUN a', 10, 14),
      vertex('b', '[two 1/2] RUN b', 10, 13.5),
      vertex('c', '[two 2/2] RUN c', 14, 14, [[4, 1]]),
    ],
  );
  expect(lines).toEqual([
    '#1 [one 1/1] RUN a',
    '#2 [two 1/2] RUN b',
    '#2 0.600 other',
    '#1 0.500 first half',
    '#1 1.000 second',
    '#3 [two 2/2] RUN c',
    '#1 DONE 4.0s',
    '#2 3.000 €',
    '#2 2.000 error',
    '#2 DONE 3.5s',
    '#3 CACHED',
  ]);
  expect(steps).toEqual(['0/3', '3/3']);
});

test('a step that fails is known with the last lines of its output, and one that was given up is none', () => {
  const text = Array.from({ length: 20 }, (_, n) => `line ${n}`).join('\n');
  const { log, lines } = logged(
    [vertex('a', '[1/2] RUN a', 1), vertex('b', '[2/2] RUN b', 1)],
    [output('a', 1, text)],
    [
      vertex('b', '[2/2] RUN b', 1, 2, [[7, 'context canceled']]),
      vertex('a', '[1/2] RUN a', 1, 2, [[7, 'executor failed running [/bin/sh -c a]: exit code: 2']]),
    ],
  );
  expect(log.failed).toMatchObject({ name: '[1/2] RUN a', last: expect.arrayContaining(['line 12', 'line 19']) });
  expect(lines.slice(-2)).toEqual(['#1 0.000 line 19', '#1 ERROR: exit code: 2']);
  expect(lines).toContain('#2 CANCELED');
});

test('a message that is none is an error', () => {
  expect(() => readTrace(Buffer.from([0x0a, 0x7f, 1]))).toThrow(RangeError);
  expect(() => readTrace(Buffer.alloc(11, 0xff))).toThrow(RangeError);
});

test('a place where the engine left out output is explained', () => {
  const { lines } = logged(
    [vertex('a', '[1/1] RUN a', 10)],
    [output('a', 10.5, 'one\n[output clipped, log limit 200KiB/s reached]\n'), output('a', 11, 'two\n')],
  );
  expect(lines.slice(1)).toEqual([
    '#1 0.500 one',
    '#1 0.500 [output clipped, log limit 200KiB/s reached]',
    expect.stringMatching(/^#1 The engine left out lines here: .*BUILDKIT_STEP_LOG_MAX_SPEED=-1/),
    '#1 1.000 two',
  ]);
});

test('the name of a step is one line, however many spaces it has', () => {
  const spaces = ' '.repeat(65_000);
  const { lines } = logged([vertex('a', `[1/1] RUN a${spaces}b \n\n  c\n`, 10)]);
  expect(lines.join('').replaceAll('#1 ', '')).toBe(`[1/1] RUN a${spaces}b c`);
});

test('a secret is hidden where its line is cut, in the last lines of its step and in the error', () => {
  const secret = 'correct horse battery staple';
  const [before, after] = ['a'.repeat(16_380), 'b'.repeat(16_384)];
  const { lines, log } = loggedWithout(
    [secret],
    [vertex('a', `[1/1] RUN echo ${secret}`, 10)],
    [output('a', 10, before + secret.slice(0, 9))],
    [output('a', 10, secret.slice(9) + after), output('a', 10, '\n')],
    [vertex('a', `[1/1] RUN echo ${secret}`, 10, 11, [[7, `exit code: 1 ${secret}`]])],
  );
  const shown = JSON.stringify([lines, log.failed]);
  expect(lines[0]).toBe('#1 [1/1] RUN echo ********');
  expect(log.failed?.error).toBe('exit code: 1 ********');
  expect(shown).not.toMatch(/correct|staple/);
});
