import type { Context, Controller, Next } from '../runtime/controller.ts';
import type { LiveAgent } from '../../store/mirror.ts';
import { isDeleting } from '../../store/resource.ts';
import type { ObservedOf } from '../../store/kinds/kinds.ts';
import type { ReadonlyResource } from '../../store/resource.ts';
import { onChange, onGone } from '../runtime/wakes.ts';
import { conditionsOf, isAwaitingAgent, isUpdated, observe } from './states.ts';
import type { World } from './states.ts';

export interface ServerSettings {
  /** A server is offline when its agent has had no session for this many milliseconds. */
  offlineAfterMs: number;
  /** The version of the agent that machines get from the control plane; `undefined`: there is none. */
  agentRelease?: () => Promise<string | undefined>;
}

/**
 * Observes whether a server can be used. Releases assignments in place of an agent that will not: all of a deleted
 * server, and those that are deleted before the first agent joins.
 */
export function serverController(settings: ServerSettings): Controller<'server'> {
  return {
    name: 'server',
    kind: 'server',
    reads: ['assignment'],
    children: ['assignment'],
    notifies: ['server_offline', 'server_error', 'server_online', 'server_update_failed'],
    wakes: [
      onGone('assignment', ({ desired }) => [desired.server_id]),
      // This controller releases what is deleted of a server that has no agent.
      onChange('assignment', ({ meta }) => meta.deletionRequestedAt, withdrawnFrom),
    ],
    keyWakes: (key) =>
      key.area === 'agent' || key.area === 'removals' ? { tenant: key.tenant, id: key.server } : undefined,
    async reconcile(it, ctx) {
      const agent = ctx.view.agent(it.meta.id);
      const isAway = agent === undefined;
      const lasted = ctx.since('away', isAway);
      const left = isAway ? settings.offlineAfterMs - lasted : undefined;
      const removals = ctx.view.heldRemovals(it.meta.id);
      const away = left !== undefined && left <= 0;
      const world: World = { server: it, agent, away, removals, release: await settings.agentRelease?.() };
      const observed = observe(world);
      const before = it.observed?.phase;
      if (before !== undefined && before !== observed.phase) await announce(it, before, observed.phase, agent, ctx);
      await announceUpdate(world, observed, ctx);
      if (isAwaitingAgent(it)) await freeWithdrawn(it, ctx);
      return { observed, conditions: conditionsOf(world), next: nextOf(it, observed.phase, left) };
    },
    async finalize(it, ctx) {
      const left = ctx.view.by('assignment', 'server', it.meta.id);
      for (const assignment of left) {
        await ctx.retire('assignment', assignment.meta.id);
        await ctx.waive('assignment', assignment.meta.id, 'agent');
      }
      const agent = ctx.view.agent(it.meta.id);
      const world: World = { server: it, agent, away: false, removals: undefined, release: undefined };
      return {
        observed: observe(world),
        conditions: [
          {
            type: 'Ready',
            status: 'false',
            reason: 'Deleting',
            message: `Waits for ${left.length} assignment(s) to go`,
          },
        ],
        next: { settled: true },
        released: left.length === 0,
      };
    },
  };
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

function nextOf(it: ReadonlyResource<'server'>, phase: string, left: number | undefined): Next {
  const hasJoined = phase === 'provisioning' && it.desired.agent_public_key !== undefined;
  const canBeLost = phase === 'active' || phase === 'error' || hasJoined;
  if (canBeLost && left !== undefined) return { again: Math.max(0, left), because: 'its agent to connect again' };
  return { settled: true };
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
