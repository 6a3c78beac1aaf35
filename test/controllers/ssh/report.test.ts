import { describe, expect, test } from 'vitest';
import { reportOfFailure } from '../../../controllers/ssh/report.ts';
import { SshFailure } from '../../../controllers/ssh/ssh-failure.ts';
import type { SshFailureCode } from '../../../controllers/ssh/ssh-failure.ts';

const hostKey = { type: 'ssh-ed25519', fingerprint: 'SHA256:seen' };
const checksOf = (code: SshFailureCode, seen?: typeof hostKey, pinned?: typeof hostKey) => {
  const { checks } = reportOfFailure(new SshFailure(code, 'It failed', 'Mend it', { hostKey: seen }), pinned);
  return Object.fromEntries(checks.map(({ name, status, message }) => [name, { status, message }]));
};

describe('the report of a machine that could not be looked at', () => {
  test('claims nothing of a machine that was not met', () => {
    const { ssh, host_key, authentication, disk } = checksOf('bad_key');
    expect([ssh?.status, host_key?.status, authentication?.status, disk?.status]).toEqual([
      'warn',
      'warn',
      'fail',
      'warn',
    ]);
  });

  test('says of a first key that it is pinned now, and of a known one that it is that', () => {
    expect(checksOf('auth_failed', hostKey)['host_key']?.message).toContain('pinned from now on');
    expect(checksOf('auth_failed', hostKey, hostKey)['host_key']?.message).toBe('Its host key is the pinned one');
  });

  test.each<[SshFailureCode, string]>([
    ['incomplete', 'ssh'],
    ['unreachable', 'ssh'],
    ['not_allowed', 'ssh'],
    ['host_key_changed', 'host_key'],
    ['auth_failed', 'authentication'],
    ['no_shell', 'authentication'],
  ])('%s fails the check %s and no other', (code, name) => {
    const failed = Object.entries(checksOf(code, hostKey)).filter(([, { status }]) => status === 'fail');
    expect(failed.map(([failing]) => failing)).toEqual([name]);
  });

  test.each<SshFailureCode>(['cut', 'timeout'])('%s after the login does not deny what was seen', (code) => {
    const { ssh, host_key } = checksOf(code, hostKey, hostKey);
    expect([ssh?.status, host_key?.status]).toEqual(['fail', 'pass']);
  });
});
