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
