import { z } from 'zod';
import { isLater } from '../../../agent-protocol/release-manifest.ts';
import { presentEra } from '../../../store/era.ts';
import { putHeldRemovals } from '../../../store/held-removals.ts';
import { keys } from '../../../store/keys.ts';
import { conflicting } from '../../ground/api-error.ts';
import type { RequestContext } from '../../endpoint/context.ts';
import { defineEndpoint } from '../../endpoint/endpoint.ts';
import { AgentStatusField } from '../../resources/server.ts';
import { agentStatus } from '../../resources/status.ts';

const pingTimeoutMs = 5000;

export const confirmRemovals = defineEndpoint({
  method: 'POST',
  path: '/servers/:id/confirm-removals',
  summary: 'Let a server remove the instances that a restored store does not know; they are kept until then',
  on: ['server', 'id'],
  response: z.object({
    server_id: z.string(),
    held: z.int().meta({ description: 'Instances that are removed now, or when the agent connects again' }),
  }),
  handle: async (ctx, { it }) => {
    const { id } = it.meta;
    const key = keys.removals(ctx.tenant, id);
    const record = ctx.mirror.key(key);
    const removals = ctx.view.heldRemovals(id);
    if (record === undefined || removals === undefined)
      throw conflicting('No removals are held on the server: there is nothing to confirm');
    const unit = ctx.repo.begin();
    if (!removals.confirmed) {
      unit.require(it);
      unit.guard({ key, is: 'at', revision: record.revision });
      const era = presentEra(ctx.mirror);
      unit.write(putHeldRemovals(ctx.tenant, id, { ...removals, confirmed: true, ...(era !== undefined && { era }) }));
    }
    return ctx.commit(unit, () => ({ server_id: id, held: removals.held }));
  },
});

export const getAgentStatus = defineEndpoint({
  method: 'GET',
  path: '/servers/:id/agent-status',
  summary: 'Whether the agent of a server is connected',
  on: ['server', 'id'],
  response: z.object({
    server_id: z.string(),
    agent_status: AgentStatusField,
    agent_id: z.string().nullable(),
    agent_version: z.string().nullable(),
    available_agent_version: z
      .string()
      .nullable()
      .meta({ description: 'A later version, which this replica has; null: there is none' }),
    conflict: z.boolean().meta({ description: 'Agents of different machines keep replacing each other' }),
  }),
  handle: async (ctx, { it }) => {
    const live = ctx.view.agent(it.meta.id);
    const version = live?.agentVersion ?? it.observed?.agent_version ?? null;
    return {
      server_id: it.meta.id,
      agent_status: agentStatus(it, ctx.view),
      agent_id: it.desired.agent_id ?? null,
      agent_version: version,
      available_agent_version: await laterVersion(ctx, version),
      conflict: live?.conflict ?? false,
    };
  },
});

/** The version of the release that this replica has, if it is later than that one. */
async function laterVersion({ releases }: RequestContext, than: string | null): Promise<string | null> {
  if (than === null) return null;
  const release = await releases.current().catch(() => undefined); // the log has the reason
  const version = release?.manifest.version;
  return version !== undefined && isLater(version, than) ? version : null;
}

export const pingServer = defineEndpoint({
  method: 'POST',
  path: '/servers/:id/ping',
  summary: 'Ask the agent for a sign of life',
  on: ['server', 'id'],
  heavy: true,
  waitsForAgent: true,
  response: z.object({ server_id: z.string(), reachable: z.literal(true), latency_ms: z.number() }),
  handle: async (ctx, { it }) => {
    const started = ctx.clock.monotonic();
    const options = { timeoutMs: pingTimeoutMs, signal: ctx.signal() };
    await ctx.agents.call(ctx.tenant, it.meta.id, { method: 'ping' }, options);
    const latency = Math.round((ctx.clock.monotonic() - started) * 10) / 10;
    return { server_id: it.meta.id, reachable: true as const, latency_ms: latency };
  },
});
