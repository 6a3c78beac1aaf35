/**
 * The machine before the first test: what runs that were killed left on it is removed, what stands in the way and what
 * it lacks is named. What belongs to runs and agents that live is left alone.
 */
import { execFile } from 'node:child_process';
import { readFile, rmdir, statfs } from 'node:fs/promises';
import { createServer } from 'node:net';
import { once } from 'node:events';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import { promisify } from 'node:util';
import { z } from 'zod';
import { findLeftovers, removeLeftover } from '../agent/leftovers.ts';
import { localRuntime } from '../cli/docker-engine.ts';
import { systemClock } from '../time/clock.ts';
import { claimedSessions, engineGet, releaseSession, testLabel } from './leftovers.ts';

const execute = promisify(execFile);
const engineSocket = '/var/run/docker.sock';
const GiB = 1024 ** 3;
/** Images of databases and of the object gateway, logs and scratch files of a run. */
const neededBytes = 15 * GiB;
/** Programs without which whole files of tests fail. */
const programs = [
  'docker',
  'git',
  'ssh',
  'sshd',
  'iptables',
  'ip',
  'mkfs.ext4',
  'mmdebstrap',
  'etcd',
  'caddy',
  'chromium',
];

/** Removes what earlier runs left. Answers with a line for each thing that it removed, or that it cannot tell of. */
export async function clearGround(): Promise<string[]> {
  const lines: string[] = [];
  const sessions = await claimedSessions();
  for (const { leader, left } of sessions.filter(({ isRunning }) => !isRunning)) {
    for (const { pid, name } of left) {
      process.kill(pid, 'SIGKILL');
      lines.push(`Ended ${name} ${pid}, which a run of tests that was killed left`);
    }
    await releaseSession(leader);
  }
  // What another run needs at this moment cannot be told from what an earlier one left.
  if (sessions.some(({ isRunning }) => isRunning)) return [...lines, 'Another run of tests is under way here'];
  lines.push(...(await removeTestContainers()), ...(await removeOfAgents()), ...(await removeMounts()));
  return lines;
}

/** Containers, networks and volumes that tests made by the engine's own command line. */
async function removeTestContainers(): Promise<string[]> {
  const filter = ['--quiet', '--filter', `label=${testLabel}`];
  const lines: string[] = [];
  const kinds = [
    { what: 'containers', list: ['ps', '--all', ...filter], remove: ['rm', '--force', '--volumes'] },
    { what: 'networks', list: ['network', 'ls', ...filter], remove: ['network', 'rm'] },
    { what: 'volumes', list: ['volume', 'ls', ...filter], remove: ['volume', 'rm', '--force'] },
  ];
  for (const { what, list, remove } of kinds) {
    const ids = (await docker(list)).split('\n').filter((id) => id !== '');
    if (ids.length === 0) continue;
    await docker([...remove, ...ids]);
    lines.push(`Removed ${ids.length} ${what} of earlier tests`);
  }
  return lines;
}

/** What agents that do not live any more left: containers, networks, images and rules. Their volumes stay. */
async function removeOfAgents(): Promise<string[]> {
  using engine = localRuntime(engineSocket);
  const deps = { engine, clock: systemClock };
  const { leftovers, doubtful } = await findLeftovers(deps, AbortSignal.timeout(60_000));
  if (doubtful && leftovers.length > 0)
    return ['An agent of an earlier release runs here: what agents left stays, as it may be its own'];
  for (const one of leftovers) await removeLeftover(deps, one, AbortSignal.timeout(300_000));
  return leftovers.map(
    ({ server, containers, ports }) =>
      `Removed what the agent of server ${server}, which does not run any more, left: ${containers.length} containers, ports ${ports.join(' ') || 'none'}; its volumes stay`,
  );
}

/** File systems that tests mounted in their folders. What is in use stays. */
async function removeMounts(): Promise<string[]> {
  const mounts = (await readFile('/proc/self/mounts', 'utf8')).split('\n').map((line) => line.split(' ')[1] ?? '');
  const own = mounts.filter((path) => path.startsWith(join(tmpdir(), 'setpoint-')));
  const lines: string[] = [];
  for (const path of own.toReversed()) {
    const error = await execute('umount', [path]).then(
      () => undefined,
      (failure: Error) => failure,
    );
    // never what is in it: another file system may have been mounted below
    if (error === undefined) await rmdir(path).catch(() => undefined);
    lines.push(error === undefined ? `Unmounted ${path}` : `Cannot unmount ${path}: ${error.message.trim()}`);
  }
  return lines;
}

const Containers = z.array(
  z.object({
    Names: z.array(z.string()),
    Image: z.string(),
    Ports: z.array(z.object({ PublicPort: z.int().optional() })),
  }),
);

/** What the machine lacks, and what runs on it that tests may meet: a line each. */
export async function inspectGround(): Promise<string[]> {
  const [found, { bavail, bsize }, hasIpv6] = await Promise.all([
    Promise.all(programs.map(async (name) => ((await isProgram(name)) ? [] : [name]))),
    statfs(tmpdir()),
    listens('::1'),
  ]);
  const lacks = found.flat();
  const lines = lacks.length > 0 ? [`This machine lacks ${lacks.join(', ')}: tests that need them will fail`] : [];
  if (!hasIpv6) lines.push('This machine has no IPv6 on loopback: tests of ::1 will fail');
  if (bavail * bsize < neededBytes)
    lines.push(
      `${tmpdir()} has ${Math.floor((bavail * bsize) / GiB)} GiB left, where a run needs ${neededBytes / GiB}`,
    );
  const running = Containers.parse(await engineGet('/containers/json'));
  for (const { Names, Image, Ports } of running) {
    const ports = [...new Set(Ports.flatMap(({ PublicPort: port }) => port ?? []))];
    const holds = ports.length > 0 ? `, and holds the ports ${ports.join(' ')}` : '';
    lines.push(
      `A container that is not of these tests runs here: ${Names.join(' ').replace('/', '')} of ${Image}${holds}`,
    );
  }
  return lines;
}

async function isProgram(name: string): Promise<boolean> {
  const folders = [...(process.env['PATH'] ?? '').split(delimiter), '/usr/sbin', '/sbin'];
  const paths = await Promise.all(folders.map((folder) => statfs(join(folder, name)).catch(() => undefined)));
  return paths.some((it) => it !== undefined);
}

async function listens(host: string): Promise<boolean> {
  const server = createServer();
  try {
    server.listen(0, host);
    await once(server, 'listening');
  } catch {
    return false;
  }
  server.close();
  await once(server, 'close');
  return true;
}

async function docker(argv: readonly string[]): Promise<string> {
  const { stdout } = await execute('docker', argv, { timeout: 120_000 });
  return stdout.trim();
}
