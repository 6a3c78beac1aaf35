import { updateCapability } from '../../agent-protocol/messages.ts';
import { isLater } from '../../agent-protocol/release-manifest.ts';
import type { AgentUpdate } from '../../agent-protocol/server-settings.ts';
import { isDeleting } from '../../store/resource.ts';
import type { ReadonlyResource } from '../../store/resource.ts';

/** The update that an agent is to be asked for; `undefined`: none is wanted, it was done, or the agent cannot. */
export function updateFor(
  server: ReadonlyResource<'server'>,
  agent: { agentVersion: string; capabilities: ReadonlySet<string> },
): AgentUpdate | undefined {
  const { desired, observed } = server;
  const wanted = desired.agent_update;
  if (isDeleting(server)) return undefined; // its agent is to remove itself
  if (wanted === undefined || observed?.update_done === wanted.requested_at) return undefined;
  if (!agent.capabilities.has(updateCapability) || !isLater(wanted.version, agent.agentVersion)) return undefined;
  return { version: wanted.version, requestedAt: wanted.requested_at };
}
