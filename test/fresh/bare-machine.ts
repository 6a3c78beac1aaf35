import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createWriteStream } from 'node:fs';
import { cp, symlink } from 'node:fs/promises';
import { arch } from 'node:os';
import { join } from 'node:path';
import { docker } from '../harness/engine.ts';
import { npmAccess, unpackNpm } from '../harness/package-sources.ts';
import { importDebian } from './debian-image.ts';

/** All that a bare machine has beside the essential packages of its distribution. */
const debianPackages = ['make', 'curl'];
const npmPackages = { node: `node-linux-${arch()}@20.20.2`, npm: 'npm@10.9.9' };

/** Where the authorities that this machine trusts beside the usual ones lie in the container. */
const authorities = '/etc/test-authorities.pem';

/** Block devices that `mount -o loop` may take; the kernel numbers them for all containers together. */
const loopDevices = 64;

/**
 * A machine with Debian, Node 20, npm, make and curl, and nothing else: a container with an engine of its own, once one
 * was installed in it. It shares the kernel with this machine and nothing of its files.
 */
export interface BareMachine extends AsyncDisposable {
  /** Copies a folder of this machine to that place. */
  copy(from: string, to: string): Promise<void>;
  /** Runs a program to its end; answers with its standard output. */
  run(...argv: string[]): Promise<string>;
  /** Starts a program whose output goes to a file of this machine. */
  start(argv: readonly string[], logPath: string): StartedProgram;
}

export interface StartedProgram {
  /** Its exit code, once it ended. */
  ended: Promise<number | null>;
}

/** As much as `--privileged` where the machine itself lacks that capability; the engine's data on a disk of their own. */
const machineFlags = [
  ['--init', '--shm-size', '1g', '--volume', '/var/lib/docker', '--cgroupns', 'private'],
  ['--cap-add', 'ALL', '--cap-drop', 'SYS_RESOURCE', '--device-cgroup-rule', 'a *:* rwm'],
  ['seccomp', 'apparmor', 'systempaths'].flatMap((it) => ['--security-opt', `${it}=unconfined`]),
].flat();

/** Installs that suite of Debian into a folder, makes an image of it and starts it. Needs root and `debootstrap`. */
export async function startBareMachine(suite: string): Promise<BareMachine> {
  await using started = new AsyncDisposableStack();
  const image = `setpoint-bare-machine:${suite}`;
  await importDebian(image, { suite, packages: debianPackages, fill: installNode });
  started.defer(async () => void (await docker('rmi', '--force', image)));
  const id = await docker('run', '--detach', ...machineFlags, image, 'sleep', 'infinity');
  started.defer(async () => void (await docker('rm', '--force', '--volumes', id)));
  const run = (...argv: string[]): Promise<string> => docker('exec', id, ...argv);
  await makeMachineOf(run);
  const npm = await npmAccess();
  const environment = npm.variables(authorities);
  if (npm.authorities !== undefined) await docker('cp', '--follow-link', npm.authorities, `${id}:${authorities}`);
  const all = started.move();
  return {
    async copy(from, to) {
      await docker('cp', from, `${id}:${to}`);
    },
    run,
    start(argv, logPath) {
      const flags = Object.entries(environment).flatMap(([name, value]) => ['--env', `${name}=${value}`]);
      const child = spawn('docker', ['exec', ...flags, id, ...argv], { stdio: ['ignore', 'pipe', 'pipe'] });
      const log = createWriteStream(logPath);
      child.stdout.pipe(log);
      child.stderr.pipe(log, { end: false });
      return { ended: once(child, 'exit').then(([code]) => code as number | null) };
    },
    [Symbol.asyncDispose]: () => all.disposeAsync(),
  };
}

/** Node and npm as their packages have them, without anything of this machine's. */
async function installNode(folder: string, tree: string): Promise<void> {
  for (const [name, specifier] of Object.entries(npmPackages)) await unpackNpm(specifier, join(folder, name));
  const local = join(tree, 'usr/local');
  await cp(join(folder, 'node/package/bin/node'), join(local, 'bin/node'));
  await cp(join(folder, 'npm/package'), join(local, 'lib/node_modules/npm'), { recursive: true });
  for (const name of ['npm', 'npx']) {
    await symlink(`../lib/node_modules/npm/bin/${name}-cli.js`, join(local, 'bin', name));
  }
}

/** Gives the container what a machine has and an engine needs: writable control groups and settings, loop devices. */
async function makeMachineOf(run: (...argv: string[]) => Promise<string>): Promise<void> {
  const mounts = (await run('cat', '/proc/mounts')).split('\n').map((line) => line.split(' ')[1] ?? '');
  for (const path of mounts.filter((it) => /^\/(sys|proc\/sys)($|\/fs\/cgroup\/)/.test(it))) {
    await run('mount', '-o', 'remount,rw,bind', path);
  }
  await run('mknod', '/dev/loop-control', 'c', '10', '237');
  for (let n = 0; n < loopDevices; n++) await run('mknod', `/dev/loop${n}`, 'b', '7', `${n}`);
}
