import { agentCapabilities } from '../../agent-protocol/messages.ts';
import { defined } from '../../store/defined.ts';
import type { HeldRemovals } from '../../store/held-removals.ts';
import type { LiveAgent } from '../../store/mirror.ts';
import type { ConditionInput, ReadonlyResource } from '../../store/resource.ts';
import type { ObservedOf } from '../../store/kinds/kinds.ts';

/** Whether no agent has joined as this server yet: then no agent has ever received its assignments. */
export function isAwaitingAgent({ desired, observed }: ReadonlyResource<'server'>): boolean {
  return desired.agent_public_key === undefined && (observed?.phase ?? 'provisioning') === 'provisioning';
}

export interface World {
  server: ReadonlyResource<'server'>;
  agent: LiveAgent | undefined;
  /** The agent has been away for longer than `offlineAfterMs`. */
  away: boolean;
  removals: HeldRemovals | undefined;
}

/**
 * provisioning → active ⇄ error, offline. Pure. A server that never had an agent is being provisioned, however long
 * that takes: its operator has the join token.
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
  if (agent !== undefined) return agent.engineTrouble === undefined ? 'active' : 'error';
  const before = server.observed?.phase ?? 'provisioning';
  if (before === 'provisioning' && server.desired.agent_public_key === undefined) return 'provisioning';
  return away ? 'offline' : before;
}

export function conditionsOf(world: World): ConditionInput[] {
  const { phase } = observe(world);
  const conditions: ConditionInput[] = [readyCondition(phase, world.agent)];
  if (phase !== 'provisioning') conditions.push(engineCondition(world.agent));
  if (world.agent?.conflict === true)
    conditions.push({
      type: 'AgentIdentityConflict',
      status: 'true',
      reason: 'SeveralMachines',
      message:
        'Several machines connect with the identity of this server: stop the agent of the copy, and let it join as a server of its own with an empty data directory',
    });
  const unknown = agentCapabilities.filter((it) => world.agent?.capabilities?.includes(it) === false);
  if (unknown.length > 0)
    conditions.push({
      type: 'AgentTooOld',
      status: 'true',
      reason: 'AgentOfEarlierRelease',
      message:
        `Its agent, version ${world.agent?.agentVersion ?? 'unknown'}, cannot ${unknown.map((it) => features[it]).join(', ')}: upgrade it. ` +
        'Until then its instances go on, and a workload that needs one of these does not start',
    });
  if (world.removals?.confirmed === false)
    conditions.push({
      type: 'RemovalsHeld',
      status: 'true',
      reason: 'StoreRewound',
      message:
        `The store does not know ${world.removals.held} of the instances on this server, as after a restore. They stay ` +
        'until their removal is confirmed: setpoint confirm-removals SERVER, or POST /servers/:id/confirm-removals',
    });
  return conditions;
}

/** What an agent with a capability can do, in words that follow "cannot". */
const features: Readonly<Record<(typeof agentCapabilities)[number], string>> = {
  configurations: 'share variables among instances',
  'images.keep': 'keep images for rollbacks',
  'build.commit': 'build an earlier commit',
  'streams.duplex': 'open terminals',
  services: 'run instances with mounts or several ports',
  volumes: 'keep volumes',
  metrics: 'keep metrics',
  'logs.server': 'show the logs of the whole server',
  'terminals.server': 'open terminals of the server',
  diagnose: 'examine and heal its machine',
};

/** Whether containers can run on the server, and what to do if not. */
function engineCondition(agent: LiveAgent | undefined): ConditionInput {
  if (agent === undefined)
    return { type: 'EngineReady', status: 'unknown', reason: 'Disconnected', message: 'Its agent is not connected' };
  const trouble = agent.engineTrouble;
  return trouble === undefined
    ? { type: 'EngineReady', status: 'true', reason: 'EngineAnswers', message: 'Its container engine answers' }
    : { type: 'EngineReady', status: 'false', ...trouble };
}

function readyCondition(phase: ObservedOf<'server'>['phase'], agent: LiveAgent | undefined): ConditionInput {
  switch (phase) {
    case 'active':
      return agent !== undefined
        ? { type: 'Ready', status: 'true', reason: 'Connected', message: 'Its agent is connected' }
        : { type: 'Ready', status: 'false', reason: 'Disconnected', message: 'Its agent has just disconnected' };
    case 'offline':
      return {
        type: 'Ready',
        status: 'false',
        reason: 'Offline',
        message: 'Its agent is not connected: check that the machine is up and runs its agent',
      };
    case 'provisioning':
      return {
        type: 'Ready',
        status: 'false',
        reason: 'AwaitingAgent',
        message: 'Its agent has not joined yet: run on its machine what `setpoint join SERVER` prints',
      };
    case 'error':
      return {
        type: 'Ready',
        status: 'false',
        reason: 'EngineNotReady',
        message:
          agent?.engineTrouble?.message ?? 'Its agent has just disconnected, and its container engine did not answer',
      };
  }
}
