import { z } from 'zod';
import { answerOf } from '../../../agent-protocol/answer.ts';
import {
  callLimits,
  Executions,
  executionStatuses,
  ExecutionStatus,
  ExecutionTrigger,
  FunctionAnswer,
  FunctionRequest,
} from '../../../agent-protocol/functions.ts';
import type { Execution as Recorded } from '../../../agent-protocol/functions.ts';
import { assignmentId } from '../../../store/kinds/assignment-id.ts';
import { referredObjects } from '../../../store/referable.ts';
import type { ReadonlyResource } from '../../../store/resource.ts';
import type { RequestContext } from '../../endpoint/context.ts';
import { defineEndpoint, defineList } from '../../endpoint/endpoint.ts';
import { badField } from '../../ground/api-error.ts';
import { serialise } from '../../ground/cached-json.ts';
import { instanceLinks, Linked, linkTo } from '../../resources/linked.ts';
import { orNull, Reference } from '../../resources/object-fields.ts';
import { pageBounds } from '../../resources/paging.ts';
import { requireAgent } from '../../workloads/agent-capability.ts';
import { versionIn } from '../../workloads/function-versions.ts';
import { listOf, Logs, LogsQuery } from '../../workloads/log-query.ts';
import { readLogs } from '../../workloads/read-logs.ts';

const answerMs = 15_000;
const lack = { lack: 'knows no functions' };

const Execution = z
  .object({
    id: z.string(),
    function_id: z.string(),
    version_id: z.string().nullable(),
    trigger: ExecutionTrigger,
    status: ExecutionStatus,
    scheduled_at: z.string().nullable(),
    started_at: z.string(),
    finished_at: z.string().nullable(),
    duration_ms: z.int().nullable().meta({ description: 'With the time that it waited for an instance' }),
    cold_start: z.boolean().meta({ description: 'An instance was started for it' }),
    cold_start_ms: z.int().nullable(),
    http: z.object({ method: z.string(), path: z.string(), status_code: z.int().nullable() }).nullable(),
    error: z.object({ code: z.string(), message: z.string() }).nullable(),
    log_preview: z.string().nullable().meta({ description: 'The last lines that its instances had written' }),
  })
  .meta({ id: 'Execution' });

function toExecution(id: string, it: Recorded): z.infer<typeof Execution> {
  const { method, path, status_code } = it;
  return {
    id: it.id,
    function_id: id,
    version_id: it.version_id === '' ? null : it.version_id,
    trigger: it.trigger,
    status: it.status,
    started_at: it.started_at,
    cold_start: it.cold_start,
    http: { method, path, ...orNull({ status_code }) },
    ...orNull({
      scheduled_at: it.scheduled_at,
      finished_at: it.finished_at,
      duration_ms: it.duration_ms,
      cold_start_ms: it.cold_start_ms,
      error: it.error,
      log_preview: it.log_preview,
    }),
  };
}

export const listExecutions = defineList({
  path: '/functions/:id/executions',
  summary: 'Calls of a function, the newest first: the last 1,000 of the last 7 days, as its server has them',
  on: ['function', 'id'],
  ofNow: true,
  query: z.strictObject({
    ...pageBounds,
    cursor: z.uuid().optional().meta({ description: '`next_cursor` of the page before' }),
    sort: z
      .enum(['-created_at', '-started_at'])
      .optional()
      .meta({ description: 'The only order that there is: an execution is created when it starts' }),
    status: listOf(executionStatuses).optional(),
    projectId: Reference.optional(),
  }),
  item: Execution,
  handle: async (ctx, { it, query: { limit, cursor, status, projectId } }) => {
    if (projectId !== undefined && projectId !== it.desired.project_id)
      return { items: [], meta: { next_cursor: null, limit, total: 0 } };
    const items: Recorded[] = [];
    let next: string | null = cursor ?? null;
    let total: number | null;
    // a page may be longer than what an agent answers at once
    do {
      const answer: z.infer<typeof Executions> = await askExecutions(ctx, it, {
        limit: Math.min(limit - items.length, callLimits.executions),
        ...(next !== null && { before: next }),
        ...(status !== undefined && { status }),
      });
      items.push(...answer.items);
      total = answer.total ?? null;
      next = answer.more ? (answer.items.at(-1)?.id ?? null) : null;
    } while (next !== null && items.length < limit);
    return {
      items: items.map((one) => serialise(toExecution(it.meta.id, one))),
      meta: { next_cursor: next, limit, total },
    };
  },
});

async function askExecutions(
  { tenant, view, agents, signal }: RequestContext,
  { meta, desired }: ReadonlyResource<'function'>,
  asked: { limit: number; before?: string; status?: z.infer<typeof ExecutionStatus>[] },
): Promise<z.infer<typeof Executions>> {
  requireAgent(view.agent(desired.server_id), 'functions', lack);
  const call = { method: 'function.executions' as const, function_id: meta.id, ...asked };
  const answer = await agents.call(tenant, desired.server_id, call, { timeoutMs: answerMs, signal: signal() });
  return answerOf(Executions, answer);
}

const Invocation = z.strictObject({
  method: FunctionRequest.shape.method.default('POST'),
  path: FunctionRequest.shape.path.default('/'),
  headers: FunctionRequest.shape.headers,
  body: z.string().max(callLimits.bodyBytes).nullish().meta({ description: 'Text' }),
  body_base64: z
    .base64()
    .max(callLimits.bodyBytes * 2)
    .nullish()
    .meta({ description: 'Bytes, in place of body' }),
});

export const invokeFunction = defineEndpoint({
  method: 'POST',
  path: '/functions/:id/invoke',
  summary: 'Call a function once, as a request to it would, and answer with what it answered',
  on: ['function', 'id'],
  heavy: true,
  actsOnce: true,
  waitsForAgent: true,
  body: Invocation,
  response: z.object({
    execution: Execution,
    answer: z
      .object({
        status: z.int(),
        headers: z.record(z.string(), z.string()),
        body: z.string().nullable().meta({ description: 'null where it is no text' }),
        body_base64: z.string(),
        truncated: z.boolean(),
      })
      .nullable()
      .meta({ description: 'null: it did not answer, and execution.error says why' }),
  }),
  handle: async (ctx, { it, body }) => {
    const { tenant, view, agents } = ctx;
    if (body.body !== undefined && body.body !== null && body.body_base64 !== undefined && body.body_base64 !== null)
      throw badField('body_base64', 'twice', 'Send body or body_base64, not both');
    const bytes = Buffer.from(body.body_base64 ?? '', 'base64');
    const content = body.body_base64 === undefined || body.body_base64 === null ? Buffer.from(body.body ?? '') : bytes;
    if (content.byteLength > callLimits.bodyBytes)
      throw badField('body', 'too_big', `Must have at most ${callLimits.bodyBytes / 1024} KiB`);
    requireAgent(view.agent(it.desired.server_id), 'functions', lack);
    const { method, path, headers } = body;
    const request = { method, path, headers, body: content.toString('base64') };
    const call = { method: 'function.call' as const, function_id: it.meta.id, request };
    const timeoutMs = (it.desired.timeout_seconds + 60) * 1000;
    const found = await agents.call(tenant, it.desired.server_id, call, { timeoutMs, signal: ctx.signal() });
    const { execution, answer } = answerOf(FunctionAnswer, found);
    return {
      execution: toExecution(it.meta.id, execution),
      answer:
        answer === undefined
          ? null
          : { ...answer, body: textOf(Buffer.from(answer.body, 'base64')), body_base64: answer.body },
    };
  },
});

function textOf(bytes: Buffer): string | null {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes);
  } catch {
    return null;
  }
}

export const readVersionLogs = defineEndpoint({
  method: 'GET',
  path: '/functions/:id/versions/:versionId/logs',
  summary: 'How a version of a function was built',
  on: ['function', 'id'],
  query: LogsQuery,
  response: Logs,
  handle: async (ctx, { it, query }) => {
    const version = versionIn(ctx, it);
    const instances = [assignmentId.task(version.meta.id, 'build')];
    return readLogs(ctx, it.desired.server_id, query, { workload: it.meta.id, instances });
  },
});

export const readFunctionLogs = defineEndpoint({
  method: 'GET',
  path: '/functions/:id/logs',
  summary: 'What the instances of a function wrote, also ones that are gone',
  on: ['function', 'id'],
  query: LogsQuery,
  response: Logs,
  handle: (ctx, { it, query }) =>
    readLogs(ctx, it.desired.server_id, query, { workload: it.meta.id, streams: ['stdout', 'stderr', 'system'] }),
});

export const listFunctionDependencies = defineEndpoint({
  method: 'GET',
  path: '/functions/:id/dependencies',
  summary: 'What the variables of a function refer to, and what it mounts',
  on: ['function', 'id'],
  response: z.object({
    applications: z.array(Linked),
    databases: z.array(Linked),
    volumes: z.array(Linked),
    functions: z.array(Linked),
    template_instance: Linked.nullable(),
  }),
  handle: async ({ view }, { it }) => ({
    applications: referredObjects(view, it, 'application').flatMap((id) => linked(view.get('application', id))),
    databases: referredObjects(view, it, 'database').flatMap((id) => linked(view.get('database', id))),
    volumes: it.desired.mounts.flatMap(({ volume_id }) => linked(view.get('volume', volume_id))),
    functions: [],
    template_instance: instanceLinks(view, it.desired)[0] ?? null,
  }),
});

function linked(it: Parameters<typeof linkTo>[0] | undefined): Linked[] {
  return it === undefined ? [] : [linkTo(it)];
}
