import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { promisify } from 'node:util';
import { pino } from 'pino';
import { z } from 'zod';
import { systemClock } from '../../time/clock.ts';
import { IptablesPublisher } from '../../agent/ports/iptables-publisher.ts';
import { labels } from '../../agent/runtime/runtime.ts';
import { testLabel } from '../leftovers.ts';
import { engineCall } from './docker.ts';
import { until } from './until.ts';

const execute = promisify(execFile);
const Interfaces = z.tuple([z.object({ addr_info: z.tuple([z.object({ local: z.string() })], z.unknown()) })]);

/** The commands that make something which a run of tests that is killed leaves behind. */
const making = [['run'], ['create'], ['network', 'create'], ['volume', 'create']];

/** Runs the engine's own command line, as somebody beside Setpoint would; answers with its standard output. */
export async function docker(...argv: string[]): Promise<string> {
  const made = making.find((words) => words.every((word, at) => argv[at] === word));
  const { stdout } = await execute('docker', made === undefined ? argv : labelled(argv, made.length), {
    maxBuffer: 64 * 1024 * 1024,
    timeout: 120_000,
  });
  return stdout.trim();
}

/** With the label by which a later run finds it. */
const labelled = (argv: readonly string[], at: number): string[] => argv.toSpliced(at, 0, '--label', testLabel);

/**
 * The address of this machine in the engine's default network, at which containers there reach it. The engine itself
 * does not know it before its second start.
 */
export async function machineAddress(): Promise<string> {
  const { stdout } = await execute('ip', ['-4', '-json', 'address', 'show', 'dev', 'docker0']);
  const [
    {
      addr_info: [{ local }],
    },
  ] = Interfaces.parse(JSON.parse(stdout));
  return local;
}

/**
 * What the engine tells of the containers of a workload, in order: `start ID`, `die ID`. It is read as it comes: the
 * engine keeps the last few hundred events only, and each check of a container's health is two.
 */
export async function followEvents(
  workloadId: string,
): Promise<AsyncDisposable & { readonly seen: readonly string[] }> {
  const [since, filter] = [
    await docker('info', '--format', '{{.SystemTime}}'),
    `label=${labels.workload}=${workloadId}`,
  ];
  const range = ['--since', since, '--filter', filter, '--filter', 'type=container'];
  const child = spawn('docker', ['events', ...range, '--format', '{{.Action}} {{.ID}}'], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const seen: string[] = [];
  createInterface(child.stdout).on('line', (line) => line.startsWith('exec_') || seen.push(line));
  const ended = once(child, 'exit');
  return {
    seen,
    async [Symbol.asyncDispose]() {
      child.kill('SIGKILL');
      await ended;
    },
  };
}

const Containers = z.array(z.object({ Id: z.string() }));

/** Containers that carry this label, running or not: their ids. Tests ask so often that the command line would cost much. */
export async function containersWith(label: string, value: string): Promise<string[]> {
  const filters = encodeURIComponent(JSON.stringify({ label: [`${label}=${value}`] }));
  const found = Containers.parse(await engineCall('GET', `/containers/json?all=1&filters=${filters}`));
  return found.map(({ Id }) => Id);
}

/** Service containers of a workload. */
export function instancesOf(workloadId: string): Promise<string[]> {
  return containersWith(labels.workload, workloadId);
}

/** What an agent leaves behind by design when it stops: its ports, containers, volumes, networks and images. */
export async function removeEverythingOf(serverId: string): Promise<void> {
  await new IptablesPublisher(serverId, {
    clock: systemClock,
    log: pino({ level: 'silent' }),
    takeOver: false,
  }).close({ remove: true }, AbortSignal.timeout(30_000));
  const containers = await containersWith(labels.server, serverId);
  if (containers.length > 0) await docker('rm', '--force', '--volumes', ...containers);
  const volumes = await docker('volume', 'ls', '--quiet', '--filter', `label=${labels.server}=${serverId}`);
  if (volumes !== '') await docker('volume', 'rm', ...volumes.split('\n'));
  // The engine may still be taking a container out of its network.
  await until('its networks are gone', async () => {
    const networks = await docker('network', 'ls', '--quiet', '--filter', `label=${labels.server}=${serverId}`);
    if (networks !== '') await docker('network', 'rm', ...networks.split('\n'));
    return true;
  });
  const images = await docker('images', '--quiet', '--no-trunc', '--filter', `label=${labels.server}=${serverId}`);
  if (images !== '') await docker('rmi', '--force', ...new Set(images.split('\n')));
}
