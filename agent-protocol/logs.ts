import { z } from 'zod';

/** One line of output. `seq` grows by one per line within one `workload_id` of one server. */
export const LogLine = z.object({
  seq: z.int(),
  /** RFC 3339 with milliseconds, of the server's wall clock. */
  timestamp: z.string(),
  stream: z.enum(['stdout', 'stderr', 'build', 'system']),
  level: z.enum(['debug', 'info', 'warn', 'error']),
  message: z.string(),
  /** Assignment that wrote it. */
  instance_id: z.string(),
});
export type LogLine = z.infer<typeof LogLine>;

/** Which lines: all conditions hold together. Lines belong to a workload; builds and instances are told apart. */
export const LogFilter = z.object({
  workload_id: z.string(),
  instance_ids: z.array(z.string()).max(500).optional(),
  streams: z.array(z.string()).max(4).optional(),
  levels: z.array(z.string()).max(4).optional(),
  search: z.string().max(200).optional(),
  /** RFC 3339, inclusive. */
  since: z.string().optional(),
  until: z.string().optional(),
});
export type LogFilter = z.infer<typeof LogFilter>;

/** Last `tail` lines that match, or the ones after `after_seq`, in order. */
export const LogQuery = LogFilter.extend({
  tail: z.int().min(1).max(5000).default(200),
  after_seq: z.int().optional(),
});
export type LogQuery = z.infer<typeof LogQuery>;

export const LogPage = z.object({
  lines: z.array(LogLine),
  /** Present if more lines follow the last one: pass it as `after_seq`. */
  next_seq: z.int().optional(),
  /** Lines were left out to keep the answer below its limit, or lost to retention. */
  truncated: z.boolean(),
});
export type LogPage = z.infer<typeof LogPage>;

/** Follow: stored lines from `after_seq` (or the last `tail`), then live ones; the seam is exact by `seq`. */
export const LogFollow = LogFilter.extend({
  tail: z.int().min(0).max(5000).default(200),
  after_seq: z.int().optional(),
});
export type LogFollow = z.infer<typeof LogFollow>;

/** What a log stream carries: batches of lines; `dropped` counts lines that the reader was too slow for. */
export const LogChunk = z.object({
  lines: z.array(LogLine),
  dropped: z.int().optional(),
  /** No line will follow: the producer ended (a build that finished). */
  end: z.boolean().optional(),
});
export type LogChunk = z.infer<typeof LogChunk>;
