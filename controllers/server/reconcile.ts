import type { AgentCalls } from '../runtime/agent-calls.ts';
import type { Context, Controller, Next } from '../runtime/controller.ts';
import type { LiveAgent } from '../../store/mirror.ts';
import type { ObservedOf } from '../../store/kinds/kinds.ts';
import { isDeleting } from '../../store/resource.ts';
import type { ReadonlyResource } from '../../store/resource.ts';
import { onChange, onChild, onGone } from '../runtime/wakes.ts';
import { provisioningOf, publicHalfOf } from '../../store/provisioning.ts';
import { sayFarewell } from './farewell.ts';
import type { Farewell } from './farewell.ts';
import { perform } from '../rollout/actions.ts';
import { planProxy, proxyCondition, proxyOf } from './ingress.ts';
import { follow } from './provisioning.ts';
import type { Provisioning } from './provisioning.ts';
import {
  conditionsOf,
  hasFailed,
  identityConflict,
  isAwaitingAgent,
  isUpdated,
  observe,
  provisioningCondition,
  strangerCondition,
} from './states.ts';
import type { World } from './states.ts';

export interface ServerSettings {
  /** A server is offline when its agent has had no session for this many milliseconds. */
  offlineAfterMs: number;
  /** The version of the agent that machines get from the control plane; `undefined`: there is none. */
  agentRelease?: () => Promise<string | undefined>;
  agents: AgentCalls;
  /** Where `/install.sh` is served. */
  publicUrl: string;
  /** The image that proxies of servers run. */
  ingressImage: string;
}

/**
 * Observes whether a server can be used, and has its machine provisioned by SSH where that is asked. Releases assignments
 * in place of an agent that will not: all of a deleted server, and those that are deleted before the first agent joins.
 * Lets the agent of a deleted server remove itself.
 */
export function serverController(settings: ServerSettings): Controller<'server'> {
  return {
    name: 'server',
    kind: 'server',
    reads: ['assignment', 'operation', 'ssh_key'],
    children: ['assignment', 'operation'],
    notifies: [
      'server_offline',
      'server_error',
      'server_online',
      'server_update_failed',
      'server_agent_left',
      'server_identity_conflict',
    ],
    wakes: [
      onChild('assignment', ({ desired }) => (desired.workload_kind === 'server' ? [desired.workload_id] : [])),
      onGone('assignment', ({ desired }) => [desired.server_id]),
      // This controller releases what is deleted of a server that has no agent.
      onChange('assignment', ({ meta }) => meta.deletionRequestedAt, withdrawnFrom),
      onChange('ssh_key', publicHalfOf, ({ meta }, view) =>
        view.by('server', 'ssh_key', meta.id).map((server) => server.meta.id),
      ),
    ],
    keyWakes: (key) =>
      key.area === 'agent' || key.area === 'removals' || key.area === 'connections'
        ? { tenant: key.tenant, id: key.server }
        : undefined,
    async reconcile(it, ctx) {
      const agent = ctx.view.agent(it.meta.id);
      const isAway = agent === undefined;
      const lasted = ctx.since('away', isAway);
      const left = isAway ? settings.offlineAfterMs - lasted : undefined;
      const removals = ctx.view.heldRemovals(it.meta.id);
      const away = left !== undefined && left <= 0;
      const provisioning = agent === undefined ? await follow(it, ctx) : undefined;
      const release = await settings.agentRelease?.();
      const isStranger = ctx.view.connections(it.meta.id)?.lost?.refused !== undefined;
      const world: World = { server: it, agent, away, removals, isStranger, provisioning, release };
      const observed = observe(world);
      const before = it.observed?.phase;
      if (provisioning?.state === 'failed') await announceFailure(it, provisioning, ctx);
      else if (before !== undefined && before !== observed.phase)
        await announce(it, hasFailed(it) ? 'provisioning' : before, observed.phase, agent, ctx);
      await announceUpdate(world, observed, ctx);
      await announceConflict(world, ctx);
      await announceStranger(world, ctx);
      if (isAwaitingAgent(it)) await freeWithdrawn(it, ctx);
      const proxy = proxyOf(it, ctx.view);
      await perform(ctx, planProxy(it, proxy, settings.ingressImage));
      const conditions = [...conditionsOf(world), ...proxyCondition(it, proxy)];
      return { observed, conditions, next: nextOf(it, observed, left) };
    },
    async finalize(it, ctx) {
      const left = ctx.view.by('assignment', 'server', it.meta.id);
      for (const { meta } of left) await ctx.retire('assignment', meta.id);
      const farewell = await sayFarewell(it, left.length, ctx, settings.agents);
      // Only an agent that is not waited for: what the store forgets before its agent is held as after a restore.
      if (farewell.is !== 'pending') for (const { meta } of left) await ctx.waive('assignment', meta.id, 'agent');
      const isReleased = farewell.is !== 'pending' && left.length === 0;
      if (isReleased && farewell.is === 'without') await notifyOfAgentLeft(it, farewell.why, settings, ctx);
      const message = farewell.is === 'pending' ? farewell.message : `Waits for ${left.length} assignment(s) to go`;
      const agent = ctx.view.agent(it.meta.id);
      // what a provisioning began tells later, too, whether there may be an agent
      const known = it.observed?.provisioning;
      const provisioning = known && { ...known, steps: known.steps.map((step) => ({ ...step })) };
      const world: World = {
        server: it,
        agent,
        away: false,
        removals: undefined,
        isStranger: false,
        provisioning,
        release: undefined,
      };
      return {
        observed: observe(world),
        conditions: [{ type: 'Ready', status: 'false', reason: 'Deleting', message }],
        next: farewell.is === 'pending' ? { again: farewell.again, because: farewell.because } : { settled: true },
        released: isReleased,
      };
    },
  };
}

/** The events of the server go with it, so that it is also notified and logged. */
async function notifyOfAgentLeft(
  it: ReadonlyResource<'server'>,
  why: Extract<Farewell, { is: 'without' }>['why'],
  { publicUrl }: ServerSettings,
  ctx: Context,
): Promise<void> {
  const { name } = it.desired;
  const remedy = 'setpoint-agent uninstall';
  const otherwise = `curl -fsSL ${publicUrl}/install.sh | sh -s -- --uninstall`;
  const message =
    `Its agent did not remove itself, as ${why}: its machine may still run it, with its containers, and keeps its ` +
    `volumes with their data (docker volume ls --filter label=setpoint.server=${it.meta.id}). ` +
    `To remove all but the volumes, run there as root: ${remedy}; where that is missing or too old: ${otherwise}`;
  ctx.log.warn({ server: it.meta.id, why, remedy, otherwise }, 'A server is deleted whose agent did not remove itself');
  ctx.event(it, { type: 'warning', reason: 'AgentLeft', message });
  await ctx.notify(it, `${it.meta.id}/agent-left`, {
    type: 'server_agent_left',
    severity: 'warning',
    title: `Server ${name} was deleted without its agent`,
    message,
  });
}

/** The server of an assignment that this controller has to release, as there is no agent. */
function withdrawnFrom(it: ReadonlyResource<'assignment'>, view: Context['view']): string[] {
  if (!isDeleting(it)) return [];
  const server = view.get('server', it.desired.server_id);
  return server !== undefined && isAwaitingAgent(server) ? [server.meta.id] : [];
}

/** Releases deleted assignments, guarded by the server: an agent that joins finds them gone or releases them itself. */
async function freeWithdrawn(it: ReadonlyResource<'server'>, ctx: Context): Promise<void> {
  for (const assignment of ctx.view.by('assignment', 'server', it.meta.id))
    if (isDeleting(assignment)) await ctx.waive('assignment', assignment.meta.id, 'agent', { asLongAs: it });
}

function nextOf(
  it: ReadonlyResource<'server'>,
  { phase, provisioning }: ObservedOf<'server'>,
  left: number | undefined,
): Next {
  if (provisioning?.state === 'failed') {
    const { reason, message } = provisioningCondition(provisioning);
    return { stalled: { reason, message } };
  }
  if (provisioning !== undefined)
    return {
      waitingFor: [{ kind: 'operation', id: provisioningOf(it.meta.id) }],
      because: 'its machine to get its agent',
    };
  const hasJoined = phase === 'provisioning' && it.desired.agent_public_key !== undefined;
  const canBeLost = phase === 'active' || phase === 'error' || hasJoined;
  if (canBeLost && left !== undefined) return { again: Math.max(0, left), because: 'its agent to connect again' };
  return { settled: true };
}

/** Notifies, once, that the machine could not be made a server. */
async function announceFailure(
  it: ReadonlyResource<'server'>,
  provisioning: Provisioning,
  ctx: Context,
): Promise<void> {
  if (it.observed?.provisioning?.asked === provisioning.asked && hasFailed(it)) return;
  const { reason, message } = provisioningCondition(provisioning);
  ctx.event(it, { type: 'warning', reason, message });
  await ctx.notify(it, `${it.meta.id}/provisioning/${provisioning.asked}`, {
    type: 'server_error',
    severity: 'error',
    title: `Server ${it.desired.name} could not be provisioned`,
    message,
  });
}

async function announce(
  it: ReadonlyResource<'server'>,
  before: string,
  phase: string,
  agent: LiveAgent | undefined,
  ctx: Context,
): Promise<void> {
  const { name } = it.desired;
  if (phase === 'offline') {
    ctx.event(it, {
      type: 'warning',
      reason: 'Offline',
      message: 'Its agent is not connected: check that the machine is up and runs its agent',
    });
    await ctx.notify(it, `${it.meta.id}/offline/${it.meta.observedRevision ?? 0}`, {
      type: 'server_offline',
      severity: 'error',
      title: `Server ${name} is offline`,
      message:
        'Its agent is not connected: its instances go on, but their state is not known. Check that the machine is up and runs its agent',
    });
  } else if (phase === 'error') {
    const { reason, message } = agent?.engineTrouble ?? {
      reason: 'EngineNotReady',
      message: 'Its container engine does not answer',
    };
    ctx.event(it, { type: 'warning', reason, message });
    await ctx.notify(it, `${it.meta.id}/engine/${it.meta.observedRevision ?? 0}`, {
      type: 'server_error',
      severity: 'error',
      title: `The container engine of server ${name} cannot be used`,
      message,
    });
  } else if (phase === 'active') {
    const [reason, message] =
      before === 'error'
        ? ['EngineAnswers', 'Its container engine answers again']
        : ['Connected', 'Its agent is connected'];
    ctx.event(it, { type: 'normal', reason, message });
    if (before !== 'offline' && before !== 'error') return;
    await ctx.notify(it, `${it.meta.id}/online/${it.meta.observedRevision ?? 0}`, {
      type: 'server_online',
      severity: 'info',
      title: `Server ${name} is back`,
      message: before === 'error' ? message : 'Its agent is connected again',
    });
  }
}

/** Notifies when several agents begin to connect as one server: once a day at most, as they may pause. */
async function announceConflict({ server: it, agent }: World, ctx: Context): Promise<void> {
  const { type, reason, message } = identityConflict;
  if (agent?.conflict !== true || it.observed?.conditions.some((known) => known.type === type) === true) return;
  ctx.event(it, { type: 'warning', reason, message });
  const day = ctx.clock.now().toISOString().slice(0, 10);
  await ctx.notify(it, `${it.meta.id}/identity/${day}`, {
    type: 'server_identity_conflict',
    severity: 'error',
    title: `Several agents connect as server ${it.desired.name}`,
    message,
  });
}

/** Notifies, once, that the agent is refused until it gets a join token. */
async function announceStranger({ server: it, agent, isStranger }: World, ctx: Context): Promise<void> {
  const { type, reason, message } = strangerCondition(it);
  const isKnown = it.observed?.conditions.some((known) => known.type === type && known.reason === reason) === true;
  if (agent !== undefined || !isStranger || isKnown) return;
  ctx.event(it, { type: 'warning', reason, message });
  await ctx.notify(it, `${it.meta.id}/stranger/${it.meta.observedRevision ?? 0}`, {
    type: 'server_error',
    severity: 'error',
    title: `The agent of server ${it.desired.name} is refused`,
    message,
  });
}

/** Says once that an update failed, and that the agent runs the version that it was asked to run. */
async function announceUpdate(world: World, observed: ObservedOf<'server'>, ctx: Context): Promise<void> {
  const { server: it, agent } = world;
  const { observed: before, desired } = it;
  const { update_failure: failure } = observed;
  if (failure !== undefined && failure.requested_at !== before?.update_failure?.requested_at) {
    const { version, reason, message, requested_at } = failure;
    const what = `Its agent was not updated to version ${version}, and goes on. ${message}`;
    ctx.event(it, { type: 'warning', reason, message: what });
    await ctx.notify(it, `${it.meta.id}/update/${requested_at}`, {
      type: 'server_update_failed',
      severity: 'error',
      title: `The agent of server ${desired.name} was not updated`,
      message: what,
    });
  }
  const isNew = before?.agent_version !== undefined && before.agent_version !== observed.agent_version;
  if (agent !== undefined && isNew && isUpdated(world))
    ctx.event(it, {
      type: 'normal',
      reason: 'AgentUpdated',
      message: `Its agent was updated from version ${before.agent_version} to ${observed.agent_version ?? 'unknown'}`,
    });
}
