import { randomUUID } from 'node:crypto';
import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { cp, mkdir, mkdtemp, realpath, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { text } from 'node:stream/consumers';
import { promisify } from 'node:util';
import { docker } from './engine.ts';

const execute = promisify(execFile);
const folders = ['etc', 'run', 'tmp', 'usr/local/bin', 'var/lib', 'var/log'];

/** How a program in the container ended. */
export interface Ended {
  code: number | null;
  stdout: string;
  stderr: string;
}

/**
 * A machine with a C and C++ library, busybox and nothing else: without Node, systemd or an engine. By default it has
 * the network of this machine.
 */
export interface BareContainer extends AsyncDisposable {
  /** Runs a line in its shell, with these variables. */
  run(line: string, env?: Readonly<Record<string, string>>): Promise<Ended>;
}

export interface BareOptions {
  /** Further programs of this machine that it has. */
  programs?: readonly string[];
  /** Flags of `docker run`. */
  flags?: readonly string[];
  /** Network of the engine. Default: `host`, that of this machine. */
  network?: string;
}

/** Makes an image in which that program of this machine can run, and starts a container of it. */
export async function startBareContainer(
  program: string,
  { programs = [], flags: more = [], network = 'host' }: BareOptions = {},
): Promise<BareContainer> {
  await using started = new AsyncDisposableStack();
  const folder = await mkdtemp(join(tmpdir(), 'setpoint-bare-container-'));
  started.defer(() => rm(folder, { recursive: true, force: true }));
  for (const name of folders) {
    await mkdir(join(folder, 'rootfs', name), { recursive: true });
    await writeFile(join(folder, 'rootfs', name, '.keep'), '');
  }
  const files = new Map([['/bin/busybox', await busybox()]]);
  for (const one of programs) files.set(one, await realpath(one));
  for (const one of [program, ...programs]) {
    const { stdout } = await execute('ldd', [one]);
    for (const [library] of stdout.matchAll(/\/\S+/g)) files.set(library, await realpath(library));
  }
  for (const [to, from] of files) {
    await mkdir(join(folder, 'rootfs', dirname(to)), { recursive: true });
    await cp(from, join(folder, 'rootfs', to));
  }
  await writeFile(join(folder, 'rootfs/etc/passwd'), 'root:x:0:0:root:/root:/bin/sh\n');
  await writeFile(
    join(folder, 'Dockerfile'),
    'FROM scratch\nCOPY rootfs/ /\nRUN ["/bin/busybox", "--install", "-s", "/bin"]\nCMD ["/bin/sleep", "infinity"]\n',
  );
  // a name of its own: another container may be of an image with the same content
  const image = `setpoint-test/bare:${randomUUID()}`;
  await docker('build', '--quiet', '--tag', image, folder);
  started.defer(async () => void (await docker('rmi', '--force', image)));
  const id = await docker('run', '--detach', '--init', '--network', network, ...more, image);
  started.defer(async () => void (await docker('rm', '--force', '--volumes', id)));
  const all = started.move();
  return {
    async run(line, env = {}) {
      const flags = Object.entries(env).flatMap(([name, value]) => ['--env', `${name}=${value}`]);
      const child = spawn('docker', ['exec', ...flags, id, 'sh', '-c', line], { stdio: ['ignore', 'pipe', 'pipe'] });
      const exited = once(child, 'exit');
      const [out, err, [code]] = await Promise.all([text(child.stdout), text(child.stderr), exited]);
      return { code: code as number | null, stdout: out, stderr: err };
    },
    [Symbol.asyncDispose]: () => all.disposeAsync(),
  };
}

async function busybox(): Promise<string> {
  const { stdout } = await execute('which', ['busybox']);
  return realpath(stdout.trim());
}
