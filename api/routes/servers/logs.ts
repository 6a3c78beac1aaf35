import { z } from 'zod';
import { answerOf } from '../../../agent-protocol/answer.ts';
import { LogStorage } from '../../../agent-protocol/logs.ts';
import { defineEndpoint } from '../../endpoint/endpoint.ts';
import { logSourceOf, LogSourceField } from '../../workloads/log-sources.ts';
import {
  askServerLogs,
  requireMerging,
  ServerLine,
  serverLines,
  ServerLogsQuery,
  wantedIds,
} from '../../workloads/server-logs.ts';

const timeoutMs = 15_000;

const ServerLogs = z
  .object({
    lines: z.array(ServerLine).meta({ description: 'In the order of their times' }),
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
    const { view } = ctx;
    const { id } = it.meta;
    const agent = view.agent(id);
    // The call says whether it is away.
    if (agent !== undefined) requireMerging(agent);
    const wanted = wantedIds(view, id, query);
    if (wanted?.length === 0) return { lines: [], next_cursor: query.cursor ?? null, more: false, truncated: false };
    const { lines, cursor, more, truncated } = await askServerLogs(ctx, id, query, wanted, ctx.signal());
    return { lines: serverLines(view, it, lines), next_cursor: cursor, more, truncated };
  },
});

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
    const { max_bytes = null, oldest_at = null, workloads, unlisted = 0, ...rest } = answerOf(LogStorage, answer);
    return {
      ...rest,
      max_bytes,
      oldest_at,
      workloads: workloads.map(({ id, bytes, lines }) => ({ ...logSourceOf(ctx.view, it, id), bytes, lines })),
      unlisted,
    };
  },
});
