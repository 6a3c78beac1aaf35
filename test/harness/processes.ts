import { readdir, readFile } from 'node:fs/promises';

/** Ids of processes of this machine whose command line has the text. */
export async function processesWith(text: string): Promise<string[]> {
  const ids = (await readdir('/proc')).filter((name) => /^\d+$/.test(name));
  const lines = await Promise.all(ids.map((id) => readFile(`/proc/${id}/cmdline`, 'utf8').catch(() => '')));
  return ids.filter((_, n) => lines[n]?.includes(text) === true);
}

/** Resident memory of a process, in bytes; `VmHWM` is the most that it ever had. */
export async function memoryOf(pid: number | undefined, what: 'VmRSS' | 'VmHWM' = 'VmRSS'): Promise<number> {
  const status = await readFile(`/proc/${pid}/status`, 'utf8');
  return Number(new RegExp(`^${what}:\\s+(\\d+) kB$`, 'm').exec(status)?.[1]) * 1024;
}

/** Bytes that a process has written, to files and to terminals. */
export async function writtenBy(pid: string): Promise<number> {
  return Number(/^wchar: (\d+)$/m.exec(await readFile(`/proc/${pid}/io`, 'utf8'))?.[1]);
}
