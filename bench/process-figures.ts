import { readFile } from 'node:fs/promises';

/** Of the kernel, for user programs. */
const ticksPerSecond = 100;

/** What a process has used up to now. */
export interface Usage {
  /** Resident memory in MB (10⁶ bytes). */
  memoryMb: number;
  /** User and system time together. */
  cpuSeconds: number;
}

export async function usageOf(pid: number): Promise<Usage> {
  const [status, stat] = await Promise.all([
    readFile(`/proc/${pid}/status`, 'utf8'),
    readFile(`/proc/${pid}/stat`, 'utf8'),
  ]);
  const kilobytes = Number(/^VmRSS:\s+(\d+)/m.exec(status)?.[1]);
  // the name of the program, in parentheses, may contain spaces
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  return { memoryMb: (kilobytes * 1024) / 1e6, cpuSeconds: (Number(fields[11]) + Number(fields[12])) / ticksPerSecond };
}
