import { access, mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { z } from 'zod';
import type { Engine } from './engine.ts';

/** Limits for all builds of the machine together. */
export interface BuildGroup {
  /** Name of the control group, the same for all agents of a machine. */
  name: string;
  pids: number;
  memoryBytes: number;
  /** CPUs, as a decimal. */
  cpus: number;
}

const Info = z.object({ CgroupDriver: z.string(), CgroupVersion: z.string().optional() });

const root = '/sys/fs/cgroup';
const periodUs = 100_000;

/**
 * Sets up the control group that all builds run in. Its limits apply to all of them together; the engine itself has no
 * limit of processes for a build. If systemd manages control groups it is a slice, with the limits of the unit of that
 * name.
 * @returns the parent group to pass to the engine
 * @throws Error if the group cannot be made
 */
export async function buildCgroup(engine: Engine, group: BuildGroup, signal: AbortSignal): Promise<string> {
  const info = Info.parse(await engine.call({ method: 'GET', path: ['info'] }, signal));
  if (info.CgroupDriver === 'systemd') return `${group.name}.slice`;
  await (info.CgroupVersion === '2' ? unified(group) : legacy(group));
  return `/${group.name}`;
}

async function legacy({ name, pids, memoryBytes, cpus }: BuildGroup): Promise<void> {
  const quota = `${Math.round(cpus * periodUs)}`;
  await limit(join(root, 'pids', name), { 'pids.max': `${pids}` });
  await limit(join(root, 'memory', name), { 'memory.limit_in_bytes': `${memoryBytes}` });
  await limit(join(root, 'cpu', name), { 'cpu.cfs_period_us': `${periodUs}`, 'cpu.cfs_quota_us': quota });
}

async function unified({ name, pids, memoryBytes, cpus }: BuildGroup): Promise<void> {
  await writeFile(join(root, 'cgroup.subtree_control'), '+pids +memory +cpu');
  await limit(join(root, name), {
    'pids.max': `${pids}`,
    'memory.max': `${memoryBytes}`,
    'cpu.max': `${Math.round(cpus * periodUs)} ${periodUs}`,
  });
}

async function limit(folder: string, files: Readonly<Record<string, string>>): Promise<void> {
  await access(root);
  await mkdir(folder, { recursive: true });
  for (const [file, value] of Object.entries(files)) await writeFile(join(folder, file), value);
}
