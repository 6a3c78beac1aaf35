import { readdir, readFile, readlink } from 'node:fs/promises';
import { setTimeout as delay } from 'node:timers/promises';
import { wait } from '../../time/clock.ts';
import type { Clock } from '../../time/clock.ts';

/** Environment variable of long-running child programs; its value names the agent that started them. */
export const ownerVariable = 'SETPOINT_OWNER';

const never = new AbortController().signal;

const rounds = 50;
const roundMs = 100;

/** Processes on this machine, judged by what the kernel shows of each. */
export type Chosen = (process: { id: string; environment: () => Promise<string[]> }) => Promise<boolean>;

/**
 * Ends the programs that a killed agent left running, with all that they started. They have the agent's name in their
 * environment, so that no file is needed that a crash could lose. Processes in containers are ignored, whatever their
 * environment has. Resolves when the programs are gone.
 * @throws Error if they are not gone within 5 s
 */
export async function endOrphans(owner: string, signal: AbortSignal): Promise<void> {
  for (let round = 0; round < rounds; round++) {
    const left = await orphansOf(owner);
    if (left.length === 0) return;
    for (const pid of left) kill(pid);
    await delay(roundMs, undefined, { signal }); // this timer keeps the process alive: nothing else does yet
  }
  throw new Error(
    `Programs that the former agent started do not end: end the processes that have ${ownerVariable} in their environment, then start the agent again`,
  );
}

/**
 * Ends the processes of a session, and those with the entry in their environment, which also have it if they left the
 * session. They get SIGHUP as when a terminal is closed, and SIGKILL if they are there after a grace of 5 s. Returns false if some are
 * left after further 5 s.
 */
export async function endSession(session: number, entry: string, clock: Clock): Promise<boolean> {
  const isOfIt: Chosen = async ({ id, environment }) =>
    (await sessionOf(id)) === session || (await environment()).includes(entry);
  const signalled = new Set<number>();
  for (let round = 0; round < 2 * rounds; round++) {
    const left = await processes(isOfIt);
    if (left.length === 0) return true;
    if (round >= rounds) for (const pid of left) kill(pid);
    else
      for (const pid of left.filter((it) => !signalled.has(it))) {
        signalled.add(pid);
        kill(pid, 'SIGHUP');
        kill(pid, 'SIGCONT'); // a stopped process gets no signal before
      }
    await wait(clock, roundMs, never);
  }
  return false;
}

function orphansOf(owner: string): Promise<number[]> {
  return processes(async ({ environment }) => (await environment()).includes(`${ownerVariable}=${owner}`));
}

/** Ids of the living processes that are chosen, except for those in containers. */
export async function processes(isChosen: Chosen): Promise<number[]> {
  const space = await readlink('/proc/self/ns/pid');
  const ids = (await readdir('/proc')).filter((name) => /^\d+$/.test(name));
  const own = await Promise.all(
    ids.map(async (id) => {
      const environment = async (): Promise<string[]> =>
        (await readFile(`/proc/${id}/environ`, 'utf8').catch(() => '')).split('\0');
      try {
        return (await isChosen({ id, environment })) && (await readlink(`/proc/${id}/ns/pid`)) === space
          ? [Number(id)]
          : [];
      } catch {
        return []; // it ended meanwhile, or belongs to another user
      }
    }),
  );
  return own.flat();
}

/** The session of a process; `undefined` for one that has ended and waits for its parent. */
async function sessionOf(id: string): Promise<number | undefined> {
  const stat = await readFile(`/proc/${id}/stat`, 'utf8');
  // The name of the program, in parentheses, may have any characters.
  const [state, , , session] = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  return state === 'Z' ? undefined : Number(session);
}

function kill(pid: number, signal: NodeJS.Signals = 'SIGKILL'): void {
  try {
    process.kill(pid, signal);
  } catch {
    // It ended meanwhile.
  }
}
