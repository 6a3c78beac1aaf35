import { defined } from '../../store/defined.ts';
import type { LiveAgent } from '../../store/mirror.ts';
import type { ConditionInput, ReadonlyResource } from '../../store/resource.ts';
import type { ObservedOf } from '../../store/kinds/kinds.ts';

export interface World {
  server: ReadonlyResource<'server'>;
  agent: LiveAgent | undefined;
  /** The agent has been away for longer than a hiccup. */
  away: boolean;
}

/**
 * provisioning → active ⇄ offline. Pure. A server that never had an agent is being provisioned, however long that takes:
 * its operator holds the join token.
 */
export function observe(world: World): ObservedOf<'server'> {
  const before = world.server.observed;
  const { agent } = world;
  return defined({
    phase: phaseOf(world),
    agent_version: agent?.agentVersion ?? before?.agent_version,
    runtime: agent?.runtime ?? before?.runtime,
    runtime_version: agent?.runtimeVersion ?? before?.runtime_version,
    boot_id: agent?.bootId ?? before?.boot_id,
    machine_id: agent?.machineId ?? before?.machine_id,
  });
}

function phaseOf({ server, agent, away }: World): ObservedOf<'server'>['phase'] {
  if (agent !== undefined) return 'active';
  const before = server.observed?.phase ?? 'provisioning';
  if (before === 'provisioning' && server.desired.agent_public_key === undefined) return 'provisioning';
  return away ? 'offline' : before;
}

export function conditionsOf(world: World): ConditionInput[] {
  const { phase } = observe(world);
  const conditions: ConditionInput[] = [readyCondition(phase, world.agent !== undefined)];
  if (world.agent?.conflict === true)
    conditions.push({
      type: 'AgentIdentityConflict',
      status: 'true',
      reason: 'SeveralMachines',
      message: 'Several machines connect with the identity of this server: one of them is a copy',
    });
  return conditions;
}

function readyCondition(phase: ObservedOf<'server'>['phase'], connected: boolean): ConditionInput {
  switch (phase) {
    case 'active':
      return connected
        ? { type: 'Ready', status: 'true', reason: 'Connected', message: 'Its agent is connected' }
        : { type: 'Ready', status: 'false', reason: 'Disconnected', message: 'Its agent has just disconnected' };
    case 'offline':
      return { type: 'Ready', status: 'false', reason: 'Offline', message: 'Its agent is not connected' };
    case 'provisioning':
      return { type: 'Ready', status: 'false', reason: 'AwaitingAgent', message: 'Its agent has not joined yet' };
    case 'error':
      return { type: 'Ready', status: 'false', reason: 'Error', message: 'Its runtime is not usable' };
  }
}
