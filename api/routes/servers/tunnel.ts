import { z } from 'zod';
import { reconnectsOf } from '../../../store/connections.ts';
import type { ReadonlyResource } from '../../../store/resource.ts';
import type { RequestContext } from '../../endpoint/context.ts';
import { defineEndpoint } from '../../endpoint/endpoint.ts';

/** The replica that holds an agent has this time to answer; without its answer the latency is not known. */
const askMs = 2000;

const TunnelStatus = z
  .object({
    server_id: z.string(),
    connected: z.boolean(),
    since: z
      .string()
      .nullable()
      .meta({ description: 'When the connection began; without one: when its end was noticed' }),
    latency_ms: z
      .number()
      .nullable()
      .meta({ description: 'Round trip of the last heartbeat; null: not connected, or not known yet' }),
    agent_version: z.string().nullable(),
    reconnects_24h: z
      .int()
      .meta({ description: 'Connections of the last 24 hours but the first one ever; at most 200 are counted' }),
    last_error: z
      .object({ at: z.string(), message: z.string() })
      .nullable()
      .meta({ description: 'When and why a connection last ended without a goodbye' }),
  })
  .meta({ id: 'TunnelStatus' });
type TunnelStatus = z.infer<typeof TunnelStatus>;

export const getTunnelStatus = defineEndpoint({
  method: 'GET',
  path: '/servers/:id/tunnel-status',
  summary: "The connection of a server's agent: since when, how fast, how often it was lost",
  on: ['server', 'id'],
  response: TunnelStatus,
  handle: async (ctx, { it }) => {
    const options = { timeoutMs: askMs, signal: ctx.signal() };
    const isConnected = ctx.view.agent(it.meta.id) !== undefined;
    const asked = isConnected ? [it.meta.id] : [];
    return statusOf(ctx, it, await ctx.agents.roundTrips(ctx.tenant, asked, options));
  },
});

export const listTunnelStatus = defineEndpoint({
  method: 'GET',
  path: '/servers/tunnel-status/all',
  summary: 'The connections of the agents of all servers, in the order of their creation',
  response: z.array(TunnelStatus),
  handle: async (ctx) => {
    const all = ctx.view.list('server');
    const connected = all.map(({ meta }) => meta.id).filter((id) => ctx.view.agent(id) !== undefined);
    const measured = await ctx.agents.roundTrips(ctx.tenant, connected, { timeoutMs: askMs, signal: ctx.signal() });
    return all.map((it) => statusOf(ctx, it, measured));
  },
});

function statusOf(
  { view, clock }: Pick<RequestContext, 'view' | 'clock'>,
  it: ReadonlyResource<'server'>,
  measured: ReadonlyMap<string, number>,
): TunnelStatus {
  const { id } = it.meta;
  const live = view.agent(id);
  const record = view.connections(id);
  return {
    server_id: id,
    connected: live !== undefined,
    since: live === undefined ? awaySince(it, record?.lost?.at) : (live.since ?? null),
    latency_ms: live === undefined ? null : (measured.get(id) ?? null),
    agent_version: live?.agentVersion ?? it.observed?.agent_version ?? null,
    reconnects_24h: reconnectsOf(record, clock.now()),
    last_error: record?.lost === undefined ? null : { at: record.lost.at, message: record.lost.why },
  };
}

/** Since when the agent is away, as the last loss of its connection and the condition of its server show it. */
function awaySince({ observed }: ReadonlyResource<'server'>, lostAt: string | undefined): string | null {
  const ready = observed?.conditions.find(({ type }) => type === 'Ready');
  const isAway = ready?.reason === 'Disconnected' || ready?.reason === 'Offline';
  const known = [lostAt, isAway ? ready.changedAt : undefined].filter((at) => at !== undefined);
  return known.toSorted().at(-1) ?? null;
}
