import { answerOf } from '../../agent-protocol/answer.ts';
import { LogPage } from '../../agent-protocol/logs.ts';
import type { RequestContext } from '../endpoint/context.ts';
import { logQueryOf } from './log-query.ts';
import type { Logs, LogScope, LogsQuery } from './log-query.ts';

const timeoutMs = 15_000;

/** Reads lines from the log store of the server that made them. @throws CallError if its agent is not connected */
export async function readLogs(
  ctx: RequestContext,
  serverId: string,
  query: LogsQuery,
  scope: LogScope,
): Promise<Logs> {
  const asked = logQueryOf(query, scope, ctx.clock);
  if (asked === undefined) return { lines: [], next_cursor: null, truncated: false };
  const { tenant } = ctx;
  const answer = await ctx.agents.call(
    tenant,
    serverId,
    { method: 'logs.read', query: asked },
    {
      timeoutMs,
      signal: ctx.signal(),
    },
  );
  const { lines, next_seq, truncated } = answerOf(LogPage, answer);
  const last = next_seq ?? lines.at(-1)?.seq;
  return { lines, next_cursor: last === undefined ? null : String(last), truncated };
}
