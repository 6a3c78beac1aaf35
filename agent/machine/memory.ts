import { readFile } from 'node:fs/promises';

/** The memory of the machine in bytes. */
export interface Memory {
  total: number;
  /** What programs can still get without swapping. */
  available: number;
}

const kibibyte = 1024;

/** `undefined`: the kernel does not tell it. */
export async function readMemory(): Promise<Memory | undefined> {
  const text = await readFile('/proc/meminfo', 'utf8').catch(() => '');
  const value = (name: string): number | undefined => {
    const found = new RegExp(`^${name}:\\s+(\\d+)`, 'm').exec(text)?.[1];
    return found === undefined ? undefined : Number(found) * kibibyte;
  };
  const total = value('MemTotal');
  const available = value('MemAvailable');
  return total === undefined || available === undefined ? undefined : { total, available };
}
