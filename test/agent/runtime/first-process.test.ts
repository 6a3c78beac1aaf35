import { expect, test } from 'vitest';
import { isFirstProcess, unstarted } from '../../../agent/runtime/first-process.ts';
import { remedyOf } from '../../../agent/runtime/start-remedies.ts';

test.each([[['/init']], [['/usr/bin/tini', '--', 'serve']], [['dumb-init', 'node', 'app.js']], [['/sbin/my_init']]])(
  'needs no other first process: %j',
  (words) => expect(isFirstProcess(words)).toBe(true),
);

test.each([[['node', 'app.js']], [['/docker-entrypoint.sh', 'postgres']], [['/bin/sh', '-c', 'exec /init']], [[]]])(
  'is started by one: %j',
  (words) => expect(isFirstProcess(words)).toBe(false),
);

test.each([
  [
    '[FATAL tini (7)] exec serve failed: No such file or directory',
    'exec serve: executable file not found in $PATH',
    'Correct start_command',
  ],
  [
    'before\n[FATAL tini (1)] exec /app/run.sh failed: No such file or directory',
    'exec /app/run.sh: no such file or directory',
    'must not end as in Windows',
  ],
  ['[FATAL tini (7)] exec /app/run failed: Exec format error', 'exec /app/run: exec format error', 'another processor'],
  ['[FATAL tini (7)] exec /app/run failed: Permission denied', 'exec /app/run: permission denied', 'chmod +x'],
  [
    '[FATAL tini (7)] exec /bin/ping failed: Operation not permitted',
    'exec /bin/ping: operation not permitted',
    'setpoint grant',
  ],
])('says of %j what to do', (lines, why, remedy) => {
  expect(unstarted(lines)).toBe(why);
  expect(remedyOf(why)).toContain(remedy);
});

test('what a program writes is no refusal', () => {
  expect(unstarted('exec serve failed: No such file or directory')).toBeUndefined();
  expect(unstarted('')).toBeUndefined();
});
