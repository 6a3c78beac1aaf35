import { access, mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { z } from 'zod';
import type { Engine } from './engine.ts';

/** What all builds of the machine together may use. */
export interface BuildGroup {
  /** Of the control group; all agents of a machine have the same. */
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
 * The control group that builds run in, whose limits hold for all of them together: the engine knows no limit of
 * processes for a build. Where systemd keeps the groups it is a slice, and its limits are those of the unit of that name.
 * @returns what the engine is told as the parent
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
