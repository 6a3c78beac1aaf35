import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { pino } from 'pino';
import { systemClock } from '../../time/clock.ts';
import { IptablesPublisher } from '../../agent/ports/iptables-publisher.ts';
import { labels } from '../../agent/runtime/runtime.ts';
import { until } from './until.ts';

const execute = promisify(execFile);

/** Runs the engine's own command line, as somebody beside Setpoint would; answers with its standard output. */
export async function docker(...argv: string[]): Promise<string> {
  const { stdout } = await execute('docker', argv, { maxBuffer: 64 * 1024 * 1024, timeout: 120_000 });
  return stdout.trim();
}

/** Containers that carry this label, running or not: their ids. */
export async function containersWith(label: string, value: string): Promise<string[]> {
  const out = await docker('ps', '--all', '--quiet', '--no-trunc', '--filter', `label=${label}=${value}`);
  return out === '' ? [] : out.split('\n');
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
