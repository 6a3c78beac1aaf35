import { expect, test } from 'vitest';
import { failureOf } from '../../../agent/runtime/docker/failure.ts';

test.each([
  'failed to register layer: Error processing tar file(exit status 1): write /hello: no space left on device',
  'write /var/lib/docker/tmp/GetImageBlob1234: no space left on device',
])('a pull that the disk of the engine does not take is reported as that: %s', (text) => {
  const fallback = { code: 'image_pull_failed', attempted: 'Cannot pull image x', codes: ['no_space'] } as const;
  expect(failureOf(text, true, fallback)).toMatchObject({
    code: 'no_space',
    retryable: true,
    message: `Cannot pull image x: ${text}`,
  });
});

test.each([
  'Failed to Setup IP tables: Unable to enable SKIP DNAT rule:  (iptables failed: iptables --wait -t nat -I DOCKER -i sp-a -j RETURN: iptables: No chain/target/match by that name. (exit status 1))',
  'driver failed programming external connectivity on endpoint web: iptables failed: iptables --wait -t filter -A DOCKER: exit status 1',
])('rules that were taken from the engine are named with what brings them back: %s', (text) => {
  const fallback = { code: 'create_failed', attempted: 'Cannot create network sp-a', codes: [] } as const;
  const { code, message, retryable } = failureOf(text, true, fallback);
  expect([code, retryable]).toEqual(['create_failed', true]);
  expect(message).toMatch(/^Cannot create network sp-a: the engine's rules were removed .*systemctl restart docker/);
  expect(message).not.toContain('DOCKER');
});

test.each([
  ['no command specified', 'Set start_command, or add CMD'],
  ['No command specified', 'Set start_command, or add CMD'],
  [
    'failed to create task for container: failed to create shim task: OCI runtime create failed: runc create failed: unable to start container process: error during container init: exec: "/app/run": exec format error: unknown',
    'for another processor than that of the server',
  ],
  [
    'OCI runtime create failed: runc create failed: unable to start container process: exec: "/bin/ping": operation not permitted: unknown',
    'setpoint grant APPLICATION NET_RAW',
  ],
  ['exec /app/run: exec format error', 'begin the script with #!/bin/sh'],
  ['exec: "serve": executable file not found in $PATH: unknown', 'Correct start_command'],
  ['exec /app/run.sh: no such file or directory', 'must not end as in Windows'],
  ['exec: "/app/run.sh": permission denied: unknown', 'RUN chmod +x'],
])('what cannot be started says what to do: %s', (text, words) => {
  const fallback = { code: 'create_failed', attempted: 'Cannot start the container', codes: ['no_space'] } as const;
  expect(failureOf(text, true, fallback)).toMatchObject({
    code: 'create_failed',
    retryable: false,
    message: expect.stringContaining(words) as string,
  });
});

test('what fails for another reason gets no such words', () => {
  const fallback = { code: 'create_failed', attempted: 'Cannot create volume x', codes: [] } as const;
  const text = 'mkdir /srv/x: permission denied';
  expect(failureOf(text, true, fallback).message).toBe(`Cannot create volume x: ${text}`);
});

test.each(['network sp-env-1 not found', 'failed to set up container networking: network sp-env-1 not found'])(
  'a network that somebody removed is made again by the next try: %s',
  (text) => {
    const fallback = { code: 'create_failed', attempted: 'Cannot start the container', codes: [] } as const;
    expect(failureOf(text, false, fallback)).toMatchObject({ code: 'create_failed', retryable: true });
  },
);
