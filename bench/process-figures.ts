import { readFile } from 'node:fs/promises';

/** Clock ticks of /proc: the kernel shows user programs 100 per second. */
const ticksPerSecond = 100;

/** What a process uses: memory now, processor time since its start. */
export interface Usage {
  /** Resident memory in MB (10⁶ bytes). */
  memoryMb: number;
  /** The most resident memory that it ever had, in MB. */
  peakMb: number;
  /** User and system time together. */
  cpuSeconds: number;
}

export async function usageOf(pid: number): Promise<Usage> {
  const [status, stat] = await Promise.all([
    readFile(`/proc/${pid}/status`, 'utf8'),
    readFile(`/proc/${pid}/stat`, 'utf8'),
  ]);
  const mbOf = (name: string): number =>
    (Number(new RegExp(`^${name}:\\s+(\\d+)`, 'm').exec(status)?.[1]) * 1024) / 1e6;
  // The name of the program, in parentheses, may have spaces.
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  const cpuSeconds = (Number(fields[11]) + Number(fields[12])) / ticksPerSecond;
  return { memoryMb: mbOf('VmRSS'), peakMb: mbOf('VmHWM'), cpuSeconds };
}
