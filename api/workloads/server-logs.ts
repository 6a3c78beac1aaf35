import { z } from 'zod';
import { answerOf } from '../../agent-protocol/answer.ts';
import { agentSource, LogLine, ServerLogPage } from '../../agent-protocol/logs.ts';
import type { ServerLogQuery } from '../../agent-protocol/logs.ts';
import type { LiveAgent, TenantView } from '../../store/mirror.ts';
import { objectsIn } from '../../store/objects-in.ts';
import type { ReadonlyResource } from '../../store/resource.ts';
import type { RequestContext } from '../endpoint/context.ts';
import { badField } from '../ground/api-error.ts';
import { requireAgent } from './agent-capability.ts';
import { lineConditions, listOf, LogsQuery } from './log-query.ts';
import { loggingKinds, logSourceOf, LogSourceField } from './log-sources.ts';

const timeoutMs = 15_000;
/** Most objects of the wanted kinds, as the agent takes no more. */
const idsMost = 5000;

/** The capability of an agent that merges the lines of all workloads of its server. */
export const mergesLogs = 'logs.server';

export const ServerLogsQuery = LogsQuery.omit({ cursor: true }).extend({
  source: z
    .string()
    .max(36)
    .regex(/^(agent|[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12})$/, 'Must be agent or an id')
    .optional()
    .meta({
      description:
        '`agent`, or the id of what wrote the lines: of its server for the agent, also of an object that was deleted',
    }),
  kind: listOf([agentSource, ...loggingKinds]).optional(),
  cursor: z
    .string()
    .max(120)
    .regex(/^(0|\d{1,16}-\d{1,15}-[0-9A-Za-z-]{1,64})$/, 'Must be next_cursor of an answer, or 0 for the oldest lines')
    .optional(),
});
export type ServerLogsQuery = z.infer<typeof ServerLogsQuery>;

/** A line with what wrote it. */
export const ServerLine = LogLine.extend({ source: LogSourceField.extend({ instance_id: z.string() }) });

/** Requires an agent that is connected and merges. @throws ApiError SERVICE_UNAVAILABLE or CONFLICT */
export function requireMerging(agent: LiveAgent | undefined): void {
  requireAgent(agent, mergesLogs, {
    lack: 'cannot merge the logs of a server',
    otherwise: 'read the logs of one application after another',
  });
}

/**
 * Asks the agent of a server for one page of its lines; `ids` of their sources as the agent knows them, `undefined` for
 * all. @throws CallError
 */
export async function askServerLogs(
  { agents, tenant, clock }: Pick<RequestContext, 'agents' | 'tenant' | 'clock'>,
  server: string,
  query: Omit<ServerLogsQuery, 'source' | 'kind'>,
  ids: readonly string[] | undefined,
  signal: AbortSignal,
): Promise<ServerLogPage> {
  const asked: ServerLogQuery = {
    ...lineConditions(query, clock),
    tail: query.tail,
    ...(ids !== undefined && { workload_ids: [...ids] }),
    ...(query.cursor !== undefined && { cursor: query.cursor }),
  };
  return answerOf(
    ServerLogPage,
    await agents.call(tenant, server, { method: 'logs.server', query: asked }, { timeoutMs, signal }),
  );
}

/** The lines of a page with what wrote them. */
export function serverLines(
  view: TenantView,
  server: ReadonlyResource<'server'>,
  lines: ServerLogPage['lines'],
): z.infer<typeof ServerLine>[] {
  return lines.map(({ workload_id, ...line }) => ({
    ...line,
    source: { ...logSourceOf(view, server, workload_id), instance_id: line.instance_id },
  }));
}

/**
 * By which ids the agent keeps the lines of the wanted sources; `undefined`: all. @throws ApiError BAD_REQUEST for more
 * than an agent takes
 */
export function wantedIds(
  view: TenantView,
  server: string,
  { source: asked, kind }: Pick<ServerLogsQuery, 'source' | 'kind'>,
): string[] | undefined {
  const id = asked?.toLowerCase();
  // answers name the agent by the id of its server
  const source = id === server ? agentSource : id;
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
