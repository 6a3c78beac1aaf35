import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { systemClock } from '../../time/clock.ts';
import { defaultContainerLimits, dockerRuntime } from '../../agent/runtime/docker/docker-runtime.ts';
import type { ContainerRuntime } from '../../agent/runtime/runtime.ts';
import { testBuilds } from './docker.ts';
import { smallDisk } from './small-disk.ts';
import { until } from './until.ts';

export interface SmallEngine extends AsyncDisposable {
  runtime: ContainerRuntime;
  socketPath: string;
  /** Folder on its disk. */
  path: string;
  pid: number;
}

/**
 * A second engine, whose images lie on a disk of that size. It lives in a network namespace of its own, from which
 * nothing can be reached: in the machine's, it would take the bridge of the first one. Needs root.
 */
export async function smallEngine(bytes: number): Promise<SmallEngine> {
  await using started = new AsyncDisposableStack();
  const folder = await mkdtemp(join(tmpdir(), 'setpoint-small-engine-'));
  started.defer(() => rm(folder, { recursive: true, force: true }));
  const disk = started.use(await smallDisk(bytes));
  const socketPath = join(folder, 'docker.sock');
  const exec = join(folder, 'exec');
  let output = '';
  const engine = spawn(
    'unshare',
    [
      ['--net', 'dockerd'],
      ['--data-root', join(disk.path, 'docker')],
      ['--exec-root', exec],
      ['--pidfile', join(folder, 'pid')],
      ['--host', `unix://${socketPath}`],
      ['--iptables=false'],
      ['--ip-masq=false'],
    ].flat(),
    { stdio: ['ignore', 'ignore', 'pipe'] },
  );
  engine.stderr.on('data', (data: Buffer) => (output += data.toString()));
  const ended = once(engine, 'exit');
  started.defer(async () => {
    engine.kill('SIGTERM');
    await ended;
    // The engine's own mounts for network namespaces outlive it.
    await promisify(execFile)('umount', [join(exec, 'netns', 'default')]).catch(() => undefined);
  });
  const runtime = started.use(
    dockerRuntime({
      socketPath,
      clock: systemClock,
      containers: defaultContainerLimits,
      builds: testBuilds,
    }),
  );
  await until('the engine answers', () => runtime.version(AbortSignal.timeout(5_000)), {
    explain: async () => output,
  });
  const all = started.move();
  return {
    runtime,
    socketPath,
    path: disk.path,
    pid: engine.pid ?? 0,
    [Symbol.asyncDispose]: () => all.disposeAsync(),
  };
}
