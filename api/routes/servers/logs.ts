import { z } from 'zod';
import { agentSource, LogLine, LogStorage, ServerLogPage } from '../../../agent-protocol/logs.ts';
import type { TenantView } from '../../../store/mirror.ts';
import { objectsIn } from '../../../store/objects-in.ts';
import { defineEndpoint } from '../../endpoint/endpoint.ts';
import { badField } from '../../ground/api-error.ts';
import { requireAgent } from '../../workloads/agent-capability.ts';
import { listOf, lineConditions, LogsQuery } from '../../workloads/log-query.ts';
import { loggingKinds, logSourceOf, LogSourceField } from '../../workloads/log-sources.ts';

const timeoutMs = 15_000;
/** Most objects of the wanted kinds, as the agent takes no more. */
const idsMost = 5000;

const ServerLogsQuery = LogsQuery.omit({ cursor: true, previous: true }).extend({
  source: z
    .string()
    .max(36)
    .regex(/^(agent|[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12})$/, 'Must be agent or an id')
    .optional()
    .meta({ description: '`agent`, or the id of what wrote the lines, also of an object that was deleted' }),
  kind: listOf([agentSource, ...loggingKinds]).optional(),
  cursor: z
    .string()
    .max(120)
    .regex(/^(0|\d{1,16}-\d{1,15}-[0-9A-Za-z-]{1,64})$/, 'Must be next_cursor of an answer, or 0 for the oldest lines')
    .optional(),
});
type ServerLogsQuery = z.infer<typeof ServerLogsQuery>;

const ServerLogs = z
  .object({
    lines: z
      .array(LogLine.extend({ source: LogSourceField.extend({ instance_id: z.string() }) }))
      .meta({ description: 'In the order of their times' }),
    next_cursor: z.string().nullable(),
    more: z.boolean().meta({ description: 'With a cursor: more lines follow the last one' }),
    truncated: z.boolean(),
  })
  .meta({ id: 'ServerLogs' });

export const readServerLogs = defineEndpoint({
  method: 'GET',
  path: '/servers/:id/logs',
  summary:
    'Lines of the agent and of all workloads of a server, also of ones that are gone, in the order of their times',
  on: ['server', 'id'],
  query: ServerLogsQuery,
  response: ServerLogs,
  handle: async (ctx, { it, query }) => {
    const { view, tenant } = ctx;
    const { id } = it.meta;
    const agent = view.agent(id);
    // The call says whether it is away.
    if (agent !== undefined)
      requireAgent(agent, 'logs.server', {
        lack: 'cannot merge the logs of a server',
        otherwise: 'read the logs of one application after another',
      });
    const wanted = wantedIds(view, id, query);
    if (wanted?.length === 0) return { lines: [], next_cursor: query.cursor ?? null, more: false, truncated: false };
    const answer = await ctx.agents.call(
      tenant,
      id,
      {
        method: 'logs.server',
        query: {
          ...lineConditions(query, ctx.clock),
          tail: query.tail,
          ...(wanted !== undefined && { workload_ids: wanted }),
          ...(query.cursor !== undefined && { cursor: query.cursor }),
        },
      },
      { timeoutMs, signal: ctx.signal() },
    );
    const { lines, cursor, more, truncated } = ServerLogPage.parse(answer);
    return {
      lines: lines.map(({ workload_id, ...line }) => ({
        ...line,
        source: { ...logSourceOf(view, it, workload_id), instance_id: line.instance_id },
      })),
      next_cursor: cursor,
      more,
      truncated,
    };
  },
});

/** By which ids the agent keeps the lines of the wanted sources; `undefined`: all. */
function wantedIds(view: TenantView, server: string, { source, kind }: ServerLogsQuery): string[] | undefined {
  if (kind === undefined) return source === undefined ? undefined : [source];
  const ids = objectsIn(view, 'server', server)
    .filter(({ meta }) => kind.some((one) => one === meta.kind))
    .map(({ meta }) => meta.id);
  if (kind.includes(agentSource)) ids.push(agentSource);
  const wanted = source === undefined ? ids : ids.filter((id) => id === source);
  if (wanted.length > idsMost)
    throw badField('kind', 'too_many', `The server has more than ${idsMost} objects of these kinds: name a source`);
  return wanted;
}

export const getServerLogStorage = defineEndpoint({
  method: 'GET',
  path: '/servers/:id/logs/storage',
  summary: 'What the logs of a server take on its disk, in all and by what wrote them',
  on: ['server', 'id'],
  response: z
    .object({
      total_bytes: z.int(),
      retention_days: z.int(),
      max_bytes: z.int().nullable().meta({ description: 'null: the agent is of an earlier release' }),
      oldest_at: z.string().nullable().meta({ description: 'Time of the oldest line' }),
      workloads: z
        .array(LogSourceField.extend({ bytes: z.int(), lines: z.int() }))
        .meta({ description: 'The largest first' }),
      unlisted: z.int().meta({ description: 'Sources with lines that the list has no room for' }),
    })
    .meta({ id: 'LogStorage' }),
  handle: async (ctx, { it }) => {
    const options = { timeoutMs, signal: ctx.signal() };
    const answer = await ctx.agents.call(ctx.tenant, it.meta.id, { method: 'logs.storage' }, options);
    const { max_bytes = null, oldest_at = null, workloads, unlisted = 0, ...rest } = LogStorage.parse(answer);
    return {
      ...rest,
      max_bytes,
      oldest_at,
      workloads: workloads.map(({ id, bytes, lines }) => ({ ...logSourceOf(ctx.view, it, id), bytes, lines })),
      unlisted,
    };
  },
});
