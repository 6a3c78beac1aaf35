import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Usage } from '../runtime.ts';

/** Where the kernel shows processes and control groups. */
export interface KernelFolders {
  processes: string;
  groups: string;
}

const kernel: KernelFolders = { processes: '/proc', groups: '/sys/fs/cgroup' };

/**
 * Reads what a container has used from its control group, of either version, and its network's counters. Returns
 * `undefined` where the kernel does not show it: the process ended, or its engine does not run on this machine.
 *
 * The reads are synchronous: the kernel makes these files in memory, a read takes microseconds, and it waits for no disk.
 */
export function groupUsage(id: string, pid: number, folders = kernel): Usage | undefined {
  if (pid <= 0) return undefined;
  try {
    const paths = groupPaths(readFileSync(join(folders.processes, `${pid}/cgroup`), 'utf8'));
    const used = paths.has('cpuacct') ? legacy(id, paths, folders) : unified(id, paths.get(''), folders);
    return used && { ...used, ...traffic(readFileSync(join(folders.processes, `${pid}/net/dev`), 'utf8')) };
  } catch {
    return undefined; // the process ended meanwhile, or the files are not there
  }
}

/** The group of a process by controller; `''`: that of the second version. */
function groupPaths(text: string): Map<string, string> {
  const found = new Map<string, string>();
  for (const line of text.split('\n')) {
    const [, controllers, path] = /^\d+:([^:]*):(.*)$/.exec(line) ?? [];
    if (controllers === undefined || path === undefined) continue;
    for (const controller of controllers.split(',')) found.set(controller, path);
  }
  return found;
}

/** Returns `undefined` unless the group is of the container: its process id may be that of another process by now. */
function folderOf(id: string, root: string, path: string | undefined): string | undefined {
  return path?.includes(id) === true ? join(root, path) : undefined;
}

function unified(id: string, path: string | undefined, { groups }: KernelFolders): Usage | undefined {
  const folder = folderOf(id, groups, path);
  if (folder === undefined) return undefined;
  const read = (name: string): string => readFileSync(join(folder, name), 'utf8');
  const io = optional(() => read('io.stat'));
  return {
    cpuMs: numberAfter('usage_usec', read('cpu.stat')) / 1000,
    memoryBytes: Math.max(0, Number(read('memory.current')) - numberAfter('inactive_file', read('memory.stat'))),
    readBytes: io === undefined ? undefined : sum(io, /\brbytes=(\d+)/g),
    writtenBytes: io === undefined ? undefined : sum(io, /\bwbytes=(\d+)/g),
  };
}

function legacy(id: string, paths: ReadonlyMap<string, string>, { groups }: KernelFolders): Usage | undefined {
  const [cpu, memory, disk] = ['cpuacct', 'memory', 'blkio'].map((it) => folderOf(id, join(groups, it), paths.get(it)));
  if (cpu === undefined || memory === undefined) return undefined;
  const read = (folder: string, name: string): string => readFileSync(join(folder, name), 'utf8');
  const io = disk === undefined ? undefined : optional(() => read(disk, 'blkio.throttle.io_service_bytes'));
  const inactive = numberAfter('total_inactive_file', read(memory, 'memory.stat'));
  return {
    cpuMs: Number(read(cpu, 'cpuacct.usage')) / 1e6,
    memoryBytes: Math.max(0, Number(read(memory, 'memory.usage_in_bytes')) - inactive),
    readBytes: io === undefined ? undefined : sum(io, / Read (\d+)/g),
    writtenBytes: io === undefined ? undefined : sum(io, / Write (\d+)/g),
  };
}

/** What went through the interfaces of a container, without the one to itself. */
function traffic(text: string): Pick<Usage, 'receivedBytes' | 'sentBytes'> {
  let receivedBytes = 0;
  let sentBytes = 0;
  for (const line of text.split('\n').slice(2)) {
    const [name = '', numbers = ''] = line.trim().split(/:\s*/);
    if (name === '' || name === 'lo') continue;
    const fields = numbers.split(/\s+/).map(Number);
    receivedBytes += fields[0] ?? 0;
    sentBytes += fields[8] ?? 0;
  }
  return { receivedBytes, sentBytes };
}

function numberAfter(name: string, text: string): number {
  const found = new RegExp(`^${name} (\\d+)`, 'm').exec(text)?.[1];
  if (found === undefined) throw new Error(`The control group does not show ${name}`);
  return Number(found);
}

function sum(text: string, pattern: RegExp): number {
  return [...text.matchAll(pattern)].reduce((total, [, number]) => total + Number(number), 0);
}

/** Returns `undefined` for a controller that is off. */
function optional(read: () => string): string | undefined {
  try {
    return read();
  } catch {
    return undefined;
  }
}
