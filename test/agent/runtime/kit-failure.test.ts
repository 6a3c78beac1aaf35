import { expect, test } from 'vitest';
import { kitFailure } from '../../../agent/runtime/docker/buildkit/kit-failure.ts';

const failed = (error: string, ...last: string[]) => ({ name: '[2/2] RUN make', error, last });
const ended = (code: number): string => `process "/bin/sh -c make" did not complete successfully: exit code: ${code}`;

test.each([
  ['ended by the kernel', failed(ended(137))],
  ['whose program says that one was ended', failed(ended(2), 'make: *** [all] Killed', 'left')],
  ['whose program got no memory', failed(ended(1), 'fork: Cannot allocate memory')],
])('a step %s while the memory of builds was at its limit may be out of memory', (_what, step) => {
  expect(kitFailure(step.error, step, true).message).toMatch(/, which may be for being out of memory: all builds/);
  expect(kitFailure(step.error, step, false).message).not.toContain('all builds');
});

test('a step that fails by itself is not called out of memory for what others used', () => {
  const step = failed(ended(1), 'test 3 failed');
  expect(kitFailure(step.error, step, true)).toMatchObject({
    code: 'build_failed',
    message: 'Build failed: [2/2] RUN make: exit code: 1\ntest 3 failed',
  });
});

const source = {
  instructions: [],
  stages: [
    {
      name: undefined,
      steps: [
        { line: 3, text: 'FROM a' },
        { line: 12, text: 'RUN make all' },
      ],
    },
  ],
  lines: [3, undefined, 12],
};

test('a step that fails is named by the line and the words of its author', () => {
  const step = failed(ended(2), 'no rule');
  expect(kitFailure(step.error, step, false, source).message).toBe(
    'Build failed: Dockerfile line 12: RUN make all: exit code: 2\nno rule',
  );
});

test('a line that the engine cannot read is that of the author', () => {
  const error = 'failed to solve: dockerfile parse error on line 3: unknown flag: --x';
  expect(kitFailure(error, undefined, false, source).message).toContain('parse error on line 12: unknown flag');
  expect(kitFailure(error.replace('3', '2'), undefined, false, source).message).toContain('on line 2');
});
