import { setTimeout as delay } from 'node:timers/promises';
import { kill, processes } from '../runtime/sessions.ts';

/** Environment variable of long-running child programs; its value names the agent that started them. */
export const ownerVariable = 'SETPOINT_OWNER';

const rounds = 50;
const roundMs = 100;

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

function orphansOf(owner: string): Promise<number[]> {
  return processes(async ({ environment }) => (await environment()).includes(`${ownerVariable}=${owner}`));
}
