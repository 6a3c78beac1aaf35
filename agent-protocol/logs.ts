import { z } from 'zod';

/**
 * One line of output. `seq` grows by one with each line of a `workload_id` on one server. A stream or level that this
 * release does not know is read as `system` or `info`.
 */
export const LogLine = z.object({
  seq: z.int(),
  /** The server's wall clock, RFC 3339 with milliseconds. */
  timestamp: z.string(),
  stream: z.enum(['stdout', 'stderr', 'build', 'system']).catch('system'),
  level: z.enum(['debug', 'info', 'warn', 'error']).catch('info'),
  message: z.string(),
  /** Id of the assignment that wrote the line. */
  instance_id: z.string(),
});
export type LogLine = z.infer<typeof LogLine>;

/** The agent's own lines, in place of the id of a workload. */
export const agentSource = 'agent';

/** Each slot of each service of the largest compose file, and its builds. */
const mostInstances = 6000;

const Conditions = {
  instance_ids: z.array(z.string()).max(mostInstances).optional(),
  streams: z.array(z.string()).max(4).optional(),
  levels: z.array(z.string()).max(4).optional(),
  search: z.string().max(200).optional(),
  /** RFC 3339, inclusive. */
  since: z.string().optional(),
  until: z.string().optional(),
};

/** Selects lines of one workload that meet all conditions. `instance_ids` selects single builds and instances. */
export const LogFilter = z.object({
  workload_id: z.string(),
  ...Conditions,
});
export type LogFilter = z.infer<typeof LogFilter>;

/** Asks for the last `tail` lines that match, or for the lines after `after_seq`, in order. */
export const LogQuery = LogFilter.extend({
  tail: z.int().min(1).max(5000).default(200),
  after_seq: z.int().optional(),
});
export type LogQuery = z.infer<typeof LogQuery>;

export const LogPage = z.object({
  lines: z.array(LogLine),
  /** Present if more lines follow the last one: pass it as `after_seq`. */
  next_seq: z.int().optional(),
  /** Lines are missing: the answer reached its limit, or retention removed them. */
  truncated: z.boolean(),
  /** With `after_seq`: the last line that was read, whether it matched or not. An earlier release does not send it. */
  end_seq: z.int().optional(),
  /**
   * With `after_seq`: how many lines from there to `end_seq` retention removed, whether they matched or not. An earlier
   * release does not send it.
   */
  lost_lines: z.int().optional(),
});
export type LogPage = z.infer<typeof LogPage>;

/**
 * Asks for lines of all workloads of the server, or of those in `workload_ids`: the last `tail` lines that match, or the
 * lines that arrived after `cursor`, in the order in which they arrived. `0` is before the first line.
 */
export const ServerLogQuery = z.object({
  workload_ids: z.array(z.string()).max(5000).optional(),
  ...Conditions,
  tail: z.int().min(1).max(5000).default(200),
  cursor: z
    .string()
    .regex(/^(0|\d{1,16}-\d{1,15}-[0-9A-Za-z-]{1,64})$/)
    .optional(),
});
export type ServerLogQuery = z.infer<typeof ServerLogQuery>;

/** The lines of a page are in the order of their times. */
export const ServerLogPage = z.object({
  lines: z.array(LogLine.extend({ workload_id: z.string() })),
  /** After the last line that was passed, whether it matched or not. */
  cursor: z.string().max(120),
  /** More lines follow: the answer reached its limit. */
  more: z.boolean(),
  /** Lines are missing: the answer reached its limit, or retention removed them. */
  truncated: z.boolean(),
  /** With a cursor: retention removed lines after it. An earlier release does not send it. */
  lost: z.boolean().optional(),
});
export type ServerLogPage = z.infer<typeof ServerLogPage>;

/**
 * What the agent keeps of its logs, by workload: a workload exists, and the lines about the making of its images (streams
 * `build` and `system`) from `builds_since` on stay whatever their age; `null`: it was deleted, and its log with it.
 * `whole`: a list of all workloads begins, which replaces the list before once it has come to its end; `more`: another
 * part of it follows.
 */
export const LogsToKeep = z.object({
  whole: z.boolean(),
  more: z.boolean(),
  workloads: z.record(z.string(), z.object({ builds_since: z.string().optional() }).nullable()),
});
export type LogsToKeep = z.infer<typeof LogsToKeep>;

/** What the logs of a server take. */
export const LogStorage = z.object({
  total_bytes: z.int(),
  retention_days: z.int(),
  /** Most bytes of all logs together; an earlier release does not send it. */
  max_bytes: z.int().optional(),
  /** Time of the oldest line, RFC 3339; absent if there is no line. */
  oldest_at: z.string().optional(),
  /** Those that have lines, the largest first. */
  workloads: z.array(z.object({ id: z.string(), bytes: z.int(), lines: z.int() })),
  /** Workloads that have lines and are not listed, as the list has its limit; absent if there are none. */
  unlisted: z.int().optional(),
});
export type LogStorage = z.infer<typeof LogStorage>;

/**
 * Asks for stored lines after `after_seq` (or the last `tail`), then live ones; no line is lost or repeated between.
 */
export const LogFollow = LogFilter.extend({
  tail: z.int().min(0).max(5000).default(200),
  after_seq: z.int().optional(),
});
export type LogFollow = z.infer<typeof LogFollow>;

/** One batch of lines in a log stream. `dropped` counts lines that were skipped because the reader was too slow. */
export const LogChunk = z.object({
  lines: z.array(LogLine),
  dropped: z.int().optional(),
  /** No more lines follow: the producer ended, for example a build that finished. */
  end: z.boolean().optional(),
});
export type LogChunk = z.infer<typeof LogChunk>;
