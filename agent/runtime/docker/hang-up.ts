import type { Clock } from '../../../time/clock.ts';
import { endSession, spaceOf } from '../sessions.ts';
import type { Engine } from './engine.ts';
import { inspectContainer } from './inspection.ts';

/**
 * Sends a signal to a process in a container; `pid` is the id on the host that the engine reported. Sends nothing if it
 * is not certain that the process is of this container: another process may have that id where the agent does not share
 * the host's processes, and a container that does share them has no boundary of its own.
 *
 * The engine has no call for it: it can signal the first process of a container only.
 */
export async function hangUp(
  engine: Engine,
  container: string,
  pid: number,
  signal: 'SIGHUP' | 'SIGKILL',
): Promise<void> {
  const space = await spaceIn(engine, container);
  if (pid <= 1 || space === undefined) return;
  try {
    if ((await spaceOf(pid)) === space) process.kill(pid, signal);
  } catch {
    // There is no such process, or the agent may not see or signal it.
  }
}

/**
 * Ends all that a terminal in a container has left: the processes of its session, and those with the entry in their
 * environment. Returns false if some are left. `session`: id on the host of the first process of the terminal.
 */
export async function endTerminal(
  engine: Engine,
  clock: Clock,
  container: string,
  { session, entry }: { session: number; entry: string },
): Promise<boolean> {
  const space = await spaceIn(engine, container);
  return space === undefined || endSession(session, entry, clock, space);
}

/** The namespace of process ids of a container that runs; `undefined` if it has none of its own, or it cannot be seen. */
async function spaceIn(engine: Engine, container: string): Promise<string | undefined> {
  try {
    const main = await inspectContainer(engine, container, new AbortController().signal);
    if (main === undefined || main.pid <= 1) return undefined;
    const [own, its] = await Promise.all([spaceOf('self'), spaceOf(main.pid)]);
    return its === own ? undefined : its;
  } catch {
    return undefined; // it has ended, or the engine does not answer
  }
}
