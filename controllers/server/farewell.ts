import { CallError } from '../../agent-protocol/call-error.ts';
import type { LiveAgent } from '../../store/mirror.ts';
import type { ReadonlyResource } from '../../store/resource.ts';
import type { AgentCalls } from '../runtime/agent-calls.ts';
import type { Because, Context } from '../runtime/controller.ts';
import { hasBegunAgent } from './provisioning.ts';

/** Bounds of the farewell, in milliseconds. */
export const farewellLimits = {
  /** The deletion goes on without an agent that was not connected, or gave no answer, for this long. */
  silentMs: 60_000,
  /** In place of it for an agent that tries another release: it goes back from one that does not connect after 60 s. */
  updatingMs: 150_000,
  /** An update that was asked for longer ago than this is not under way. */
  updateMs: 10 * 60_000,
  /** An agent that answers that it still removes instances is waited for this long. */
  busyMs: 10 * 60_000,
  /** Longest time of one question. */
  callMs: 10_000,
  /** Time between two questions. */
  againMs: 1000,
} as const;

/** What is to be done about the agent of a server that is being deleted. */
export type Farewell =
  /** Nothing is left, and the agent removes itself; or no agent ever joined. */
  | { is: 'done' }
  | { is: 'pending'; again: number; because: Because; message: string }
  /** The deletion goes on, and the agent stays on its machine. `why` follows "as". */
  | { is: 'without'; why: string };

interface World {
  server: ReadonlyResource<'server'>;
  agent: LiveAgent | undefined;
  /** No agent has joined, but the installation of one was begun on the machine. */
  isInstalled: boolean;
  /** Assignments that the agent has not removed yet. */
  left: number;
  /** For how long the agent has not been connected. */
  awayMs: number;
  /** For how long the agent has been connected and has not agreed. */
  silentMs: number;
  /** For how long the server has been deleted. */
  lastedMs: number;
  /** Milliseconds since 1970. */
  now: number;
}

/** The next step; `ask`: the agent is to be asked to remove itself. Pure. */
function planFarewell({
  server,
  agent,
  isInstalled,
  left,
  awayMs,
  silentMs,
  lastedMs,
  now,
}: World): Farewell | { is: 'ask' } {
  if (server.desired.agent_public_key === undefined)
    return isInstalled ? { is: 'without', why: 'it was being installed and had not joined' } : { is: 'done' };
  if (agent === undefined) {
    const isUpdating = isUpdateUnderWay(server, now);
    const waitMs = (isUpdating ? farewellLimits.updatingMs : farewellLimits.silentMs) - awayMs;
    const isOffline = server.observed?.phase === 'offline' && !isUpdating;
    if (isOffline || waitMs <= 0) return { is: 'without', why: 'it was not connected' };
    return {
      is: 'pending',
      again: waitMs,
      because: 'its agent to connect again',
      message: `Its agent is not connected${isUpdating ? ', as it tries another release' : ''}: it is to remove itself from its machine`,
    };
  }
  if (agent.capabilities?.includes('uninstall') !== true)
    return { is: 'without', why: 'it is of an earlier release, or does not run as an installed one' };
  if (silentMs >= farewellLimits.silentMs || lastedMs >= farewellLimits.busyMs)
    return { is: 'without', why: 'it did not end in time what it was to remove before' };
  if (left === 0) return { is: 'ask' };
  return {
    is: 'pending',
    again: farewellLimits.busyMs - lastedMs,
    because: 'its agent to remove what ran there',
    message: `Waits for ${left} assignment(s) to go`,
  };
}

function isUpdateUnderWay({ desired, observed }: ReadonlyResource<'server'>, now: number): boolean {
  const asked = desired.agent_update?.requested_at;
  if (asked === undefined || observed?.update_done === asked || observed?.update_failure?.requested_at === asked)
    return false;
  return now - Date.parse(asked) < farewellLimits.updateMs;
}

/**
 * Lets the agent of a server remove the `left` assignments, and then itself, within the bounds of `farewellLimits`. To be
 * repeated until the answer is not `pending`, also by another leader: an agent that agreed agrees again. @throws the
 * signal's reason
 */
export async function sayFarewell(
  server: ReadonlyResource<'server'>,
  left: number,
  ctx: Pick<Context, 'tenant' | 'view' | 'since' | 'signal' | 'clock'>,
  agents: AgentCalls,
): Promise<Farewell> {
  const agent = ctx.view.agent(server.meta.id);
  const isInstalled = hasBegunAgent(server, ctx.view);
  const awayMs = ctx.since('away', agent === undefined);
  const silentMs = ctx.since('silent', agent !== undefined && left === 0);
  const lastedMs = ctx.since('deleting', true);
  const now = ctx.clock.now().getTime();
  const step = planFarewell({ server, agent, isInstalled, left, awayMs, silentMs, lastedMs, now });
  if (step.is !== 'ask') return step;
  try {
    const { callMs: timeoutMs } = farewellLimits;
    await agents.call(ctx.tenant, server.meta.id, { method: 'uninstall' }, { timeoutMs, signal: ctx.signal });
    return { is: 'done' };
  } catch (error) {
    if (!(error instanceof CallError)) throw error;
    if (error.code === 'unsupported' || error.code === 'forbidden') return { is: 'without', why: 'it refused' };
    if (error.code === 'busy') ctx.since('silent', false);
    return {
      is: 'pending',
      again: farewellLimits.againMs,
      because: 'its agent to remove itself',
      message: `Its agent is to remove itself from its machine: ${error.message}`,
    };
  }
}
