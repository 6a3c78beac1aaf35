import { readlink } from 'node:fs/promises';
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
  const main = await inspectContainer(engine, container, new AbortController().signal).catch(() => undefined);
  if (pid <= 1 || main === undefined || main.pid <= 1) return;
  try {
    const [own, its, theirs] = await Promise.all([namespaceOf('self'), namespaceOf(pid), namespaceOf(main.pid)]);
    if (its !== theirs || its === own) return;
    process.kill(pid, signal);
  } catch {
    // There is no such process, or the agent may not see or signal it.
  }
}

/** The namespace of process ids that a process is in. */
function namespaceOf(pid: number | 'self'): Promise<string> {
  return readlink(`/proc/${pid}/ns/pid`);
}
