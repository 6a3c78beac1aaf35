import { agentCapabilities, updateCapability } from '../../agent-protocol/messages.ts';
import { isLater } from '../../agent-protocol/release-manifest.ts';
import { defined } from '../../store/defined.ts';
import type { HeldRemovals } from '../../store/held-removals.ts';
import type { LiveAgent } from '../../store/mirror.ts';
import { shellWord } from '../../store/shell-word.ts';
import type { ConditionInput, ReadonlyResource } from '../../store/resource.ts';
import type { ObservedOf } from '../../store/kinds/kinds.ts';
import { decisiveStep } from '../provision/steps.ts';
import type { Provisioning } from './provisioning.ts';

/** Whether no agent has joined as this server yet: then no agent has ever received its assignments. */
export function isAwaitingAgent({ desired, observed }: ReadonlyResource<'server'>): boolean {
  if (desired.agent_public_key !== undefined) return false;
  return (observed?.phase ?? 'provisioning') === 'provisioning' || observed?.provisioning !== undefined;
}

export interface World {
  server: ReadonlyResource<'server'>;
  agent: LiveAgent | undefined;
  /** The agent has been away for longer than `offlineAfterMs`. */
  away: boolean;
  removals: HeldRemovals | undefined;
  /** The agent was refused, as it knows a key of the control plane that the store lacks. */
  isStranger: boolean;
  /** Version of the agent that machines get from the control plane; `undefined`: it has no release. */
  release: string | undefined;
  /** Of its machine, by SSH; `undefined`: none is asked, or its agent has joined. */
  provisioning: Provisioning | undefined;
}

/**
 * provisioning → active ⇄ error, offline. Pure. A server that never had an agent is being provisioned: by SSH, until
 * that has failed, or by its operator, who has the join token, however long that takes.
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
    update_done: updateDoneOf(world),
    update_failure: updateFailureOf(world),
    provisioning: agent === undefined ? world.provisioning : undefined,
  });
}

/**
 * Why the update that is wanted failed. It stays until the agent runs the version, or is asked anew: an agent that starts
 * again does not know that it refused a release before.
 */
function updateFailureOf(world: World): ObservedOf<'server'>['update_failure'] {
  const { server, agent } = world;
  const wanted = server.desired.agent_update;
  if (wanted === undefined || isUpdated(world)) return undefined;
  const { requested_at } = wanted;
  const reported = agent?.updateFailure;
  if (reported?.requestedAt === requested_at) {
    const { version, reason, message } = reported;
    return { version, requested_at, reason, message };
  }
  const before = server.observed?.update_failure;
  return before?.requested_at === requested_at ? { ...before } : undefined;
}

/** Time of the update that is wanted, once the agent has run its version. */
function updateDoneOf(world: World): string | undefined {
  const asked = world.server.desired.agent_update?.requested_at;
  return isUpdated(world) || world.server.observed?.update_done === asked ? asked : undefined;
}

/** Whether the agent runs the version that it was asked to run, or a later one. */
export function isUpdated({ server, agent }: Pick<World, 'server' | 'agent'>): boolean {
  const wanted = server.desired.agent_update?.version;
  const version = agent?.agentVersion ?? server.observed?.agent_version;
  return wanted !== undefined && version !== undefined && (version === wanted || isLater(version, wanted));
}

function phaseOf({ server, agent, away, provisioning }: World): ObservedOf<'server'>['phase'] {
  if (agent !== undefined) return agent.engineTrouble === undefined ? 'active' : 'error';
  if (isAwaitingAgent(server)) return provisioning?.state === 'failed' ? 'error' : 'provisioning';
  const before = hasFailed(server) ? 'provisioning' : (server.observed?.phase ?? 'provisioning');
  return away ? 'offline' : before;
}

/** Whether it is in error since its machine could not be provisioned. */
export function hasFailed({ observed }: ReadonlyResource<'server'>): boolean {
  return observed?.phase === 'error' && observed.provisioning !== undefined;
}

/** Of a server as which several agents connect. */
export const identityConflict = {
  type: 'AgentIdentityConflict',
  status: 'true',
  reason: 'SeveralMachines',
  message:
    'Several agents connect with the identity of this server in turn, as a data directory or a machine was copied: stop the agent of the copy, and let it join as a server of its own with an empty data directory',
} as const satisfies ConditionInput;

export function conditionsOf(world: World): ConditionInput[] {
  const { phase, provisioning } = observe(world);
  if (provisioning !== undefined) return [provisioningCondition(provisioning), ...provisioning.steps];
  const conditions: ConditionInput[] = [readyCondition(phase, world)];
  if (phase !== 'provisioning') conditions.push(engineCondition(world.agent));
  for (const { reason, message } of world.agent?.engineWarnings ?? [])
    conditions.push({ type: `Engine${reason}`, status: 'true', reason, message });
  if (world.agent?.conflict === true) conditions.push(identityConflict);
  const unknown = agentCapabilities.filter((it) => world.agent?.capabilities?.includes(it) === false);
  if (unknown.length > 0)
    conditions.push({
      type: 'AgentTooOld',
      status: 'true',
      reason: 'AgentOfEarlierRelease',
      message:
        `Its agent, version ${world.agent?.agentVersion ?? 'unknown'}, cannot ${unknown.map((it) => features[it]).join(', ')}: ${upgrade(world)}. ` +
        'Until then its instances go on, and a workload that needs one of these does not start',
    });
  conditions.push(...updateConditions(world));
  if (world.removals?.confirmed === false)
    conditions.push({
      type: 'RemovalsHeld',
      status: 'true',
      reason: 'StoreRewound',
      message:
        `The store does not know ${world.removals.held} of the instances on this server, as after a restore. They stay ` +
        `until their removal is confirmed: setpoint confirm-removals ${commandName(world)}, or POST /servers/:id/confirm-removals`,
    });
  return conditions;
}

/** The name of the server, as a word of a command. */
function commandName({ server }: Pick<World, 'server'>): string {
  return shellWord(server.desired.name);
}

/** How the agent comes to a later version, in words that follow a colon. */
function upgrade({ server, agent, release }: Pick<World, 'server' | 'agent' | 'release'>): string {
  if (release === undefined) return 'upgrade it';
  if (agent?.capabilities?.includes(updateCapability) === true)
    return `upgrade it to ${release}, by setpoint update-agent ${commandName({ server })}`;
  return `upgrade it to ${release}, by the script that installs it, ADDRESS/install.sh`;
}

/** What became of the update that was asked for, and whether there is a later version to ask for. */
function updateConditions(world: World): ConditionInput[] {
  const { server, agent, release } = world;
  const wanted = server.desired.agent_update;
  const failure = updateFailureOf(world);
  const version = agent?.agentVersion ?? 'unknown';
  const conditions: ConditionInput[] = [];
  if (failure !== undefined)
    conditions.push({
      type: 'AgentUpdateFailed',
      status: 'true',
      reason: failure.reason,
      message: `Its agent was not updated to version ${failure.version}, and goes on. ${failure.message}`,
    });
  else if (wanted !== undefined) conditions.push(updatedCondition(world, wanted.version));
  const isUnderWay = failure === undefined && updateDoneOf(world) === undefined && wanted?.version === release;
  if (release !== undefined && isLater(release, version) && !isUnderWay)
    conditions.push({
      type: 'AgentUpdateAvailable',
      status: 'true',
      reason: 'LaterRelease',
      message: `Its agent has version ${version}, and the control plane has ${release}: ${upgrade(world)}`,
    });
  return conditions;
}

function updatedCondition(world: World, wanted: string): ConditionInput {
  const type = 'AgentUpdated';
  const { agent, server } = world;
  if (isUpdated(world)) {
    const version = agent?.agentVersion ?? server.observed?.agent_version ?? wanted;
    return { type, status: 'true', reason: 'Updated', message: `Its agent runs version ${version}` };
  }
  if (updateDoneOf(world) !== undefined)
    return {
      type,
      status: 'false',
      reason: 'PutBack',
      message: `Its agent ran version ${wanted}, and another one was installed on its machine since then: setpoint update-agent ${commandName(world)} asks for the update again`,
    };
  if (agent === undefined)
    return {
      type,
      status: 'false',
      reason: 'AgentAway',
      message: `Its agent was asked to run version ${wanted} and is not connected: it is being started again, or takes it up once it is back`,
    };
  if (agent.capabilities?.includes(updateCapability) !== true)
    return {
      type,
      status: 'false',
      reason: 'CannotUpdateItself',
      message: `Its agent, version ${agent.agentVersion ?? 'unknown'}, was asked to run version ${wanted} and cannot update itself: run the script that installs it, ADDRESS/install.sh, on its machine`,
    };
  return {
    type,
    status: 'false',
    reason: 'Updating',
    message: `Its agent, version ${agent.agentVersion ?? 'unknown'}, was asked to run version ${wanted}: it fetches it, in its turn where many agents do so at once, verifies it, and starts again`,
  };
}

/** What an agent with a capability can do, in words that follow "cannot". */
const features: Readonly<Record<(typeof agentCapabilities)[number], string>> = {
  configurations: 'share variables among instances',
  'images.keep': 'keep images for rollbacks',
  'logs.keep': 'keep the logs of builds as long as their deployments',
  'build.commit': 'build an earlier commit',
  'build.secrets': 'give secrets to builds',
  'build.submodules': 'fetch submodules',
  'build.compose': 'read compose files in repositories',
  'git.credentials': 'read private repositories',
  'build.generate': 'generate Dockerfiles',
  functions: 'serve functions',
  'functions.volumes': 'mount volumes in functions',
  'tasks.run': 'run commands once',
  'tasks.backup': 'back up databases',
  'tasks.restore': 'restore databases',
  'tasks.volumes': 'back up and restore volumes',
  archive: 'recover databases to any instant',
  'tasks.import': 'import dumps into databases',
  'registry.access': 'log in to registries',
  'streams.duplex': 'open terminals',
  'calls.cancel': 'end calls whose callers left',
  'streams.tunnel': 'lead connections to databases',
  services: 'run instances with mounts or several ports',
  'services.process': 'run instances with a working directory or a first process of their own',
  'services.grants': 'run instances with capabilities that were granted to them',
  volumes: 'keep volumes',
  'volumes.copy': 'copy Docker volumes',
  ingress: 'lead domains to applications',
  metrics: 'keep metrics',
  traffic: 'count requests to applications',
  'logs.server': 'show the logs of the whole server',
  'terminals.server': 'open terminals of the server',
  diagnose: 'examine and heal its machine',
  survey: 'list what runs on it that no agent made',
  'survey.values': 'take that over with the values of its variables',
  'instances.query': 'ask databases about themselves',
  'repository.manifests': 'read what the repositories of syncs declare',
  'git.tags': 'find the newest tags of repositories',
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

/** Whether the machine becomes a server, by the step that decides on it. */
export function provisioningCondition({ state, steps }: Provisioning): ConditionInput {
  const step = decisiveStep(steps);
  if (state === 'failed' && step !== undefined)
    return { type: 'Ready', status: 'false', reason: step.reason, message: step.message };
  const message = 'Its machine is provisioned by SSH';
  return {
    type: 'Ready',
    status: 'false',
    reason: 'Provisioning',
    message: step === undefined ? message : `${message}. ${step.type}: ${step.message}`,
  };
}

/** Of a server whose agent knows a key of the control plane that the store lacks. */
export function strangerCondition(server: ReadonlyResource<'server'>): ConditionInput {
  return {
    type: 'Ready',
    status: 'false',
    reason: 'AgentKnowsAnotherKey',
    message:
      'Its agent is refused, as it knows a key of the control plane that the store does not have, as after a restore ' +
      `from before that key: run on its machine what \`setpoint join ${commandName({ server })}\` prints. Its workloads go on`,
  };
}

function readyCondition(phase: ObservedOf<'server'>['phase'], world: World): ConditionInput {
  const { agent, isStranger } = world;
  if (agent === undefined && isStranger) return strangerCondition(world.server);
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
        message: `Its agent has not joined yet: run on its machine what \`setpoint join ${commandName(world)}\` prints`,
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
