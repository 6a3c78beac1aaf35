import { readdir, readFile, readlink } from 'node:fs/promises';
import { setTimeout as delay } from 'node:timers/promises';

/** Variable that names, in each program that runs for long, the agent that it belongs to. */
export const ownerVariable = 'SETPOINT_OWNER';

const rounds = 50;
const roundMs = 100;

/**
 * Ends the programs that an agent which was killed left running, with all that they started: they bear its name in their
 * environment, so nothing has to be written down that a crash could lose. Processes of containers are not looked at,
 * whatever they bear. Resolves when they are gone. @throws Error if they are not within 5 s
 */
export async function endOrphans(owner: string, signal: AbortSignal): Promise<void> {
  for (let round = 0; round < rounds; round++) {
    const left = await orphansOf(owner);
    if (left.length === 0) return;
    for (const pid of left) kill(pid);
    await delay(roundMs, undefined, { signal }); // by a timer that keeps the process alive: nothing else does yet
  }
  throw new Error('Programs of an earlier agent do not end: processes that bear its name in their environment');
}

async function orphansOf(owner: string): Promise<number[]> {
  const space = await readlink('/proc/self/ns/pid');
  const ids = (await readdir('/proc')).filter((name) => /^\d+$/.test(name));
  const own = await Promise.all(
    ids.map(async (id) => {
      try {
        const environment = await readFile(`/proc/${id}/environ`, 'utf8');
        return environment.split('\0').includes(`${ownerVariable}=${owner}`) &&
          (await readlink(`/proc/${id}/ns/pid`)) === space
          ? [Number(id)]
          : [];
      } catch {
        return []; // it ended meanwhile, or is somebody else's
      }
    }),
  );
  return own.flat();
}

function kill(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL');
  } catch {
    // It ended meanwhile.
  }
}
