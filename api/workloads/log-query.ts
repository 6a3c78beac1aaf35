import { z } from 'zod';
import type { LogFilter, LogQuery } from '../../agent-protocol/logs.ts';
import { LogLine } from '../../agent-protocol/logs.ts';
import type { Clock } from '../../time/clock.ts';
import { badField } from '../ground/api-error.ts';
import { Reference } from '../resources/object-fields.ts';
import { instantOf } from './instant.ts';

const streams = ['stdout', 'stderr', 'build', 'system'] as const;
const levels = ['debug', 'info', 'warn', 'error'] as const;

/** One of the values, or several separated by commas. */
export const listOf = <const T extends readonly [string, ...string[]]>(values: T) =>
  z
    .string()
    .transform((text) => text.split(','))
    .pipe(z.array(z.enum(values)).max(values.length))
    .meta({ override: { type: 'string', description: `One or more of ${values.join(', ')}, with commas between` } });

/** Query of every endpoint that reads logs. */
export const LogsQuery = z.object({
  tail: z.coerce.number().int().min(1).max(5000).default(200),
  since: z.string().max(40).optional().meta({ description: 'RFC 3339, or an age such as 15m' }),
  until: z.string().max(40).optional().meta({ description: 'RFC 3339, or an age such as 15m' }),
  cursor: z.string().max(40).optional(),
  search: z.string().max(200).optional(),
  stream: listOf(streams).optional(),
  level: listOf(levels).optional(),
  instance_id: Reference.optional(),
});
export type LogsQuery = z.infer<typeof LogsQuery>;

export const Logs = z
  .object({ lines: z.array(LogLine), next_cursor: z.string().nullable(), truncated: z.boolean() })
  .meta({ id: 'Logs' });
export type Logs = z.infer<typeof Logs>;

/** The workload whose lines are read; `instances` and `streams` restrict what the query may ask for. */
export interface LogScope {
  workload: string;
  instances?: readonly string[];
  streams?: readonly (typeof streams)[number][];
}

/**
 * The query for the agent; `undefined` if no line can match. @throws ApiError BAD_REQUEST for an invalid time or cursor
 */
export function logQueryOf(query: LogsQuery, scope: LogScope, clock: Clock): LogQuery | undefined {
  const instances = narrowed(scope.instances, query.instance_id === undefined ? undefined : [query.instance_id]);
  const wanted = narrowed(scope.streams, query.stream);
  if (instances?.length === 0 || wanted?.length === 0) return undefined;
  return {
    ...lineConditions(query, clock),
    workload_id: scope.workload,
    tail: query.tail,
    ...(instances !== undefined && { instance_ids: [...instances] }),
    ...(wanted !== undefined && { streams: [...wanted] }),
    ...(query.cursor !== undefined && { after_seq: parseSeqCursor(query.cursor) }),
  };
}

/** What the query asks of each line. @throws ApiError BAD_REQUEST for an invalid time */
export function lineConditions(query: Omit<LogsQuery, 'tail'>, clock: Clock): Omit<LogFilter, 'workload_id'> {
  const since = timeOf('since', query.since, clock);
  const until = timeOf('until', query.until, clock);
  return {
    ...(query.instance_id !== undefined && { instance_ids: [query.instance_id] }),
    ...(query.stream !== undefined && { streams: query.stream }),
    ...(query.level !== undefined && { levels: query.level }),
    ...(query.search !== undefined && { search: query.search }),
    ...(since !== undefined && { since }),
    ...(until !== undefined && { until }),
  };
}

function narrowed<T>(allowed: readonly T[] | undefined, wanted: readonly T[] | undefined): readonly T[] | undefined {
  if (allowed === undefined || wanted === undefined) return wanted ?? allowed;
  return wanted.filter((one) => allowed.includes(one));
}

function timeOf(field: string, text: string | undefined, clock: Clock): string | undefined {
  return text === undefined ? undefined : new Date(instantOf(field, text, clock)).toISOString();
}

/** A cursor is the number of the last line that was read. @throws ApiError BAD_REQUEST */
function parseSeqCursor(cursor: string): number {
  if (!/^\d{1,15}$/.test(cursor))
    throw badField('cursor', 'invalid', 'Cursor is not one of this log: read without a cursor');
  return Number(cursor);
}
