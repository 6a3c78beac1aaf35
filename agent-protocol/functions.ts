import { z } from 'zod';

/** Bounds of what is sent of one call, and of one question for executions. */
export const callLimits = { bodyBytes: 256 * 1024, answerBytes: 256 * 1024, headers: 64, executions: 200 } as const;

export const executionStatuses = ['running', 'succeeded', 'failed', 'timed_out', 'missed'] as const;
export const ExecutionStatus = z.enum(executionStatuses);
export type ExecutionStatus = z.infer<typeof ExecutionStatus>;

export const ExecutionTrigger = z.enum(['http', 'cron', 'manual']);
export type ExecutionTrigger = z.infer<typeof ExecutionTrigger>;

/** One call of a function, as its agent recorded it. Texts are cut. */
export const Execution = z.object({
  id: z.string().max(64),
  version_id: z.string().max(64),
  trigger: ExecutionTrigger,
  status: ExecutionStatus,
  /** The instant that a call by the schedule is for. */
  scheduled_at: z.string().max(40).optional(),
  started_at: z.string().max(40),
  finished_at: z.string().max(40).optional(),
  duration_ms: z.int().min(0).optional(),
  /** An instance was started for it. */
  cold_start: z.boolean(),
  /** How long it waited for that. */
  cold_start_ms: z.int().min(0).optional(),
  method: z.string().max(32),
  path: z.string().max(1024),
  status_code: z.int().optional(),
  error: z.object({ code: z.string().max(64), message: z.string().max(1000) }).optional(),
  /** The last lines that its instances had written when it ended. */
  log_preview: z.string().max(2000).optional(),
});
export type Execution = z.infer<typeof Execution>;

/** Result of `function.executions`, the newest first. */
export const Executions = z.object({
  items: z.array(Execution).max(callLimits.executions),
  more: z.boolean(),
  /** How many there are of these states, on whatever page. */
  total: z.int().min(0).optional(),
});
export type Executions = z.infer<typeof Executions>;

const HeaderName = z.string().regex(/^[A-Za-z0-9!#$%&'*+.^_`|~-]{1,128}$/, 'Must be the name of a header');
const HeaderValue = z
  .string()
  .max(8192)
  .regex(/^[\t\x20-\x7e\x80-\xff]*$/, 'Must be one line of text');

/** A request that a function is called with. */
export const FunctionRequest = z.object({
  method: z.string().regex(/^(?!(?:CONNECT|TRACE)$)[A-Z]{1,16}$/, 'Must be a method such as GET, not CONNECT or TRACE'),
  /** With the query. */
  path: z
    .string()
    .max(4096)
    .regex(/^\/[\x21-\x7e]*$/, 'Must begin with / and have no spaces'),
  headers: z
    .record(HeaderName, HeaderValue)
    .refine((headers) => Object.keys(headers).length <= callLimits.headers, `Must be at most ${callLimits.headers}`)
    .default({}),
  /** In base64. */
  body: z
    .base64()
    .max(callLimits.bodyBytes * 2)
    .default(''),
});
export type FunctionRequest = z.infer<typeof FunctionRequest>;

/** Result of `function.call`. */
export const FunctionAnswer = z.object({
  execution: Execution,
  /** Absent: the function did not answer; `execution.error` says why. */
  answer: z
    .object({
      status: z.int(),
      headers: z.record(z.string(), z.string()),
      /** In base64. */
      body: z.base64().max(callLimits.answerBytes * 2),
      /** There was more than is sent. */
      truncated: z.boolean(),
    })
    .optional(),
});
export type FunctionAnswer = z.infer<typeof FunctionAnswer>;
