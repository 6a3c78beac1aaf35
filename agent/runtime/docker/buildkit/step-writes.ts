import { constants } from 'node:fs';
import { open, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { buildHost } from './build-host.ts';
import { stepGroups } from './kit-cgroup.ts';

const maxHostsBytes = 64 * 1024;
/** Most processes that are looked at: of a step with more, a part is counted. */
const maxProcesses = 10_000;

/**
 * Bytes that the steps which run now, of builds of the scope, have written to disks: also those of files that they
 * removed meanwhile. 0 where the kernel does not show it.
 */
export async function stepWrites(scope: string, groups = '/sys/fs/cgroup', processes = '/proc'): Promise<number> {
  let bytes = 0;
  let looked = 0;
  for (const group of await stepGroups(groups)) {
    const text = await readFile(join(group, 'cgroup.procs'), 'utf8').catch(() => '');
    const ids = text.split('\n').filter((id) => /^\d+$/.test(id));
    const [first] = ids;
    if (first === undefined || !(await isOf(join(processes, first), scope))) continue;
    for (const id of ids) {
      if (++looked > maxProcesses) return bytes;
      const io = await readFile(join(processes, id, 'io'), 'utf8').catch(() => ''); // it ended meanwhile
      bytes += Number(/^write_bytes: (\d+)$/m.exec(io)?.[1] ?? 0);
    }
  }
  return bytes;
}

/** Whether the file of hosts that the engine made for a step names the scope. The step itself cannot write it. */
async function isOf(process: string, scope: string): Promise<boolean> {
  try {
    const { O_RDONLY, O_NOFOLLOW, O_NONBLOCK } = constants;
    await using file = await open(join(process, 'root/etc/hosts'), O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
    const it = await file.stat();
    if (!it.isFile() || it.size > maxHostsBytes) return false;
    return (await file.readFile('utf8')).split(/\s+/).includes(buildHost(scope));
  } catch {
    return false; // it ended meanwhile, or an image has no such file
  }
}
