import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { expect, test } from 'vitest';
import { endOrphans, ownerVariable } from '../../../agent/machine/orphans.ts';

function sleeper(owner: string) {
  const child = spawn('/bin/sh', ['-c', 'sleep 600 & wait'], {
    detached: true,
    stdio: 'ignore',
    env: { PATH: '/bin:/usr/bin', [ownerVariable]: owner },
  });
  return { child, ended: once(child, 'exit') };
}

test('ends what an earlier agent left, with its children, and nothing of another one', async () => {
  const [mine, also, other] = [sleeper('/data/one'), sleeper('/data/one'), sleeper('/data/one/more')];
  try {
    await endOrphans('/data/one', AbortSignal.timeout(10_000));
    expect((await Promise.all([mine.ended, also.ended])).map(([, signal]) => signal as string)).toEqual([
      'SIGKILL',
      'SIGKILL',
    ]);
    expect(other.child.exitCode ?? other.child.signalCode).toBeNull();
    await endOrphans('/data/one', AbortSignal.timeout(10_000));
  } finally {
    process.kill(-other.child.pid!, 'SIGKILL');
    await other.ended;
  }
});

test('leaves a process of a container alone, whatever it bears', async () => {
  const owner = '/data/contained';
  const program = ['/bin/sh', '-c', `${ownerVariable}=${owner} exec /bin/sh -c 'echo up; exec sleep 600'`];
  // The program that makes the namespace stands outside of it, and ends when the one inside does.
  const outside = spawn('unshare', ['--pid', '--fork', '--kill-child', ...program], {
    stdio: ['ignore', 'pipe', 'ignore'],
    env: { PATH: '/bin:/usr/bin' },
  });
  const ended = once(outside, 'exit');
  try {
    await once(outside.stdout, 'data');
    const { child, ended: killed } = sleeper(owner);
    await endOrphans(owner, AbortSignal.timeout(10_000));
    await killed;
    expect(child.signalCode).toBe('SIGKILL');
    expect(outside.exitCode ?? outside.signalCode).toBeNull();
  } finally {
    outside.kill('SIGKILL');
    await ended;
  }
});
