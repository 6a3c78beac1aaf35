import type { LiveAgent } from '../../store/mirror.ts';
import { agentAway, conflicting } from '../ground/api-error.ts';

/** Whether the agent can do it. What the replica that admitted the agent did not record may be there. */
export function isCapable(agent: LiveAgent, capability: string): boolean {
  return agent.capabilities?.includes(capability) !== false;
}

/**
 * Requires that the agent of a server is connected and can do it. `lack`: what an agent of an earlier release has not, in
 * words that follow "which"; `otherwise`: what else its user can do.
 *
 * @throws ApiError SERVICE_UNAVAILABLE if it is away, CONFLICT if it is of an earlier release
 */
export function requireAgent(
  agent: LiveAgent | undefined,
  capability: string,
  { lack, otherwise }: { lack: string; otherwise?: string },
): asserts agent {
  if (agent === undefined) throw agentAway();
  if (isCapable(agent, capability)) return;
  const remedy = otherwise === undefined ? 'upgrade the agent' : `upgrade the agent, or ${otherwise}`;
  throw conflicting(`The agent of the server is of an earlier release, which ${lack}: ${remedy}`);
}
