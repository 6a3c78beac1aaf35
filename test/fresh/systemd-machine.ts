import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { promisify } from 'node:util';
import type { Ended } from '../harness/bare-container.ts';
import { docker } from '../harness/engine.ts';
import { mirror } from '../harness/package-sources.ts';
import { until } from '../harness/until.ts';

const execute = promisify(execFile);
/** All that it has beside the essential packages of its distribution. */
const packages = ['systemd', 'systemd-sysv', 'dbus', 'curl', 'ca-certificates'];
/** What a container has no hardware for, or would change the machine around it. */
const masked = [
  'systemd-udevd.service',
  'systemd-udev-trigger.service',
  'systemd-logind.service',
  'getty.target',
  'console-getty.service',
  'apt-daily.timer',
  'apt-daily-upgrade.timer',
  'systemd-timesyncd.service',
  'sys-kernel-debug.mount',
  'sys-kernel-tracing.mount',
  'dev-hugepages.mount',
  'dev-mqueue.mount',
  'sys-fs-fuse-connections.mount',
  'proc-sys-fs-binfmt_misc.automount',
];
/** As systemd does on a machine, and not in a container: what it mounts for a service (LoadCredential) is then seen there. */
const remount = `[Unit]
DefaultDependencies=no
Before=sysinit.target
[Service]
Type=oneshot
ExecStart=/bin/bash -c 'for m in /sys/fs/cgroup/*; do mountpoint -q $m && mount -o remount,rw,bind $m; done; mount -o remount,rw,bind /sys; mount -o remount,rw,bind /proc/sys; mount --make-rshared /; true'
`;
const flags = [
  ['--stop-signal', 'SIGRTMIN+3'],
  ['--cgroupns', 'private', '--cap-add', 'ALL', '--cap-drop', 'SYS_RESOURCE', '--device-cgroup-rule', 'a *:* rwm'],
  ['seccomp', 'apparmor', 'systempaths'].flatMap((it) => ['--security-opt', `${it}=unconfined`]),
  ['/run:exec', '/run/lock', '/tmp:exec'].flatMap((it) => ['--tmpfs', it]),
].flat();
const changes = ['CMD ["/sbin/init"]', 'ENV container=docker'];

/** A machine with Debian, systemd and curl, and nothing else. It shares the kernel with this machine. */
export interface SystemdMachine extends AsyncDisposable {
  /** Its address in the network of this machine. */
  address: string;
  /** Runs a line in its shell. */
  run(line: string): Promise<Ended>;
  /** Copies a file of this machine to that place. */
  copy(from: string, to: string): Promise<void>;
  /** Restarts the machine; resolves when it is up. */
  restart(): Promise<void>;
}

/**
 * Installs that suite of Debian with further packages, makes an image of it and starts it. `more`: flags of
 * `docker run`. Needs root and `debootstrap`.
 */
export async function startSystemdMachine(
  suite: string,
  { further = [], more = [] }: { further?: readonly string[]; more?: readonly string[] } = {},
): Promise<SystemdMachine> {
  await using started = new AsyncDisposableStack();
  const image = `setpoint-systemd-machine:${suite}`;
  await makeImage(suite, image, further);
  started.defer(async () => void (await docker('rmi', '--force', image)));
  const id = await docker('run', '--detach', ...flags, ...more, image);
  started.defer(async () => void (await docker('rm', '--force', '--volumes', id)));
  const run = async (line: string): Promise<Ended> => {
    const child = spawn('docker', ['exec', id, 'sh', '-c', line], { stdio: ['ignore', 'pipe', 'pipe'] });
    const exited = once(child, 'exit');
    const [stdout, stderr, [code]] = await Promise.all([text(child.stdout), text(child.stderr), exited]);
    return { code: code as number | null, stdout, stderr };
  };
  const isUp = (): Promise<true> =>
    until('the machine is up', async () => /running|degraded/.test((await run('systemctl is-system-running')).stdout));
  await isUp();
  const address = await docker('inspect', '--format', '{{.NetworkSettings.Networks.bridge.IPAddress}}', id);
  const all = started.move();
  return {
    address,
    run,
    async copy(from, to) {
      await docker('cp', from, `${id}:${to}`);
    },
    async restart() {
      await docker('restart', id);
      await isUp();
    },
    [Symbol.asyncDispose]: () => all.disposeAsync(),
  };
}

async function makeImage(suite: string, image: string, further: readonly string[]): Promise<void> {
  const folder = await mkdtemp(join(tmpdir(), 'setpoint-systemd-'));
  try {
    const tree = join(folder, 'tree');
    const include = `--include=${[...packages, ...further].join(',')}`;
    await execute('debootstrap', ['--variant=minbase', include, suite, tree, ...(await mirror())], {
      maxBuffer: 16 * 1024 * 1024,
    });
    const units = join(tree, 'etc/systemd/system');
    for (const unit of masked) await symlink('/dev/null', join(units, unit));
    await writeFile(join(units, 'remount.service'), remount);
    await mkdir(join(units, 'sysinit.target.wants'), { recursive: true });
    await symlink('../remount.service', join(units, 'sysinit.target.wants/remount.service'));
    const archive = join(folder, 'tree.tar');
    await execute('tar', ['--directory', tree, '--create', '--file', archive, '.']);
    await docker('import', ...changes.flatMap((it) => ['--change', it]), archive, image);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}
