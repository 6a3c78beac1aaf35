import { readdir, readFile, readlink } from 'node:fs/promises';
import { wait } from '../../time/clock.ts';
import type { Clock } from '../../time/clock.ts';

/** Environment variable of what runs on a terminal; its value names the terminal. */
export const terminalVariable = 'SETPOINT_TERMINAL';

const never = new AbortController().signal;

const rounds = 50;
const roundMs = 100;

/** Processes on this machine, judged by what the kernel shows of each. */
export type Chosen = (process: { id: string; environment: () => Promise<string[]> }) => Promise<boolean>;

/**
 * Ends the processes of a session, and those with the entry in their environment, which also have it if they left the
 * session. They get SIGHUP as when a terminal is closed, and SIGKILL if they are there after a grace of 5 s. Returns false if some are
 * left after further 5 s. `space`: their namespace of process ids, absent: that of the agent.
 */
export async function endSession(session: number, entry: string, clock: Clock, space?: string): Promise<boolean> {
  const isOfIt: Chosen = async ({ id, environment }) =>
    (await sessionOf(id)) === session || (await environment()).includes(entry);
  const signalled = new Set<number>();
  for (let round = 0; round < 2 * rounds; round++) {
    const left = await processes(isOfIt, space);
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

/** The namespace of process ids that a process is in. @throws Error if there is no such process, or it may not be seen */
export function spaceOf(pid: number | 'self'): Promise<string> {
  return readlink(`/proc/${pid}/ns/pid`);
}

/** Ids of the living processes that are chosen in one namespace of process ids: absent, that of the agent. */
export async function processes(isChosen: Chosen, wanted?: string): Promise<number[]> {
  const space = wanted ?? (await spaceOf('self'));
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

/** Sends a signal to a process that may have ended. */
export function kill(pid: number, signal: NodeJS.Signals = 'SIGKILL'): void {
  try {
    process.kill(pid, signal);
  } catch {
    // It ended meanwhile.
  }
}
