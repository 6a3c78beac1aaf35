import type { Context, Controller, Next } from '../runtime/controller.ts';
import type { LiveAgent } from '../../store/mirror.ts';
import type { ReadonlyResource } from '../../store/resource.ts';
import { isKind } from '../runtime/kind-guard.ts';
import { conditionsOf, isAwaitingAgent, observe } from './states.ts';
import type { World } from './states.ts';

export interface ServerSettings {
  /** A server is offline when its agent has had no session for this many milliseconds. */
  offlineAfterMs: number;
}

/**
 * Observes whether a server can be used. Releases assignments in place of an agent that will not: all of a deleted
 * server, and those that are deleted before the first agent joins.
 */
export function serverController(settings: ServerSettings): Controller<'server'> {
  // Since when each agent is away, on this leader's monotonic clock.
  const awaySince = new Map<string, number>();

  return {
    name: 'server',
    kind: 'server',
    reads: ['assignment'],
    children: ['assignment'],
    wakes: [
      {
        kind: 'assignment',
        ids: ({ before, after }, view) => (after === undefined ? serverOf(before) : withdrawnFrom(after, view)),
      },
    ],
    begin: () => awaySince.clear(),
    keyWakes: (key) =>
      key.area === 'agent' || key.area === 'removals' ? { tenant: key.tenant, id: key.server } : undefined,
    async reconcile(it, ctx) {
      const agent = ctx.view.agent(it.meta.id);
      const left = leftUntilOffline(it, agent === undefined, ctx);
      const removals = ctx.view.heldRemovals(it.meta.id);
      const world: World = { server: it, agent, away: left !== undefined && left <= 0, removals };
      const observed = observe(world);
      const before = it.observed?.phase;
      if (before !== undefined && before !== observed.phase) await announce(it, before, observed.phase, agent, ctx);
      if (isAwaitingAgent(it)) await freeWithdrawn(it, ctx);
      return { observed, conditions: conditionsOf(world), next: nextOf(it, observed.phase, left) };
    },
    async finalize(it, ctx) {
      awaySince.delete(keyOf(it));
      const left = ctx.view.by('assignment', 'server', it.meta.id);
      for (const assignment of left) {
        await ctx.retire('assignment', assignment.meta.id);
        await ctx.waive('assignment', assignment.meta.id, 'agent');
      }
      const world: World = { server: it, agent: ctx.view.agent(it.meta.id), away: false, removals: undefined };
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

  function leftUntilOffline(it: ReadonlyResource<'server'>, away: boolean, ctx: Context): number | undefined {
    if (!away) {
      awaySince.delete(keyOf(it));
      return undefined;
    }
    const now = ctx.clock.monotonic();
    const since = awaySince.get(keyOf(it)) ?? now;
    awaySince.set(keyOf(it), since);
    return since + settings.offlineAfterMs - now;
  }
}

function keyOf(it: ReadonlyResource): string {
  return `${it.meta.tenant}/${it.meta.id}`;
}

function serverOf(it: ReadonlyResource | undefined): string[] {
  if (it === undefined) return [];
  return 'server_id' in it.desired && typeof it.desired.server_id === 'string' ? [it.desired.server_id] : [];
}

/** The server of an assignment that this controller has to release, as there is no agent. */
function withdrawnFrom(it: ReadonlyResource, view: Context['view']): string[] {
  if (!isKind(it, 'assignment') || it.meta.deletionRequestedAt === undefined) return [];
  const server = view.get('server', it.desired.server_id);
  return server !== undefined && isAwaitingAgent(server) ? [server.meta.id] : [];
}

/** Releases deleted assignments, guarded by the server: an agent that joins finds them gone or releases them itself. */
async function freeWithdrawn(it: ReadonlyResource<'server'>, ctx: Context): Promise<void> {
  for (const assignment of ctx.view.by('assignment', 'server', it.meta.id))
    if (assignment.meta.deletionRequestedAt !== undefined)
      await ctx.waive('assignment', assignment.meta.id, 'agent', { asLongAs: it });
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
    ctx.event(it, { type: 'warning', reason: 'Offline', message: 'Its agent is not connected' });
    await ctx.notify(it, `${it.meta.id}/offline/${it.meta.observedRevision ?? 0}`, {
      type: 'server_offline',
      severity: 'error',
      title: `Server ${name} is offline`,
      message: 'Its agent is not connected: what runs there goes on, but is not known',
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
