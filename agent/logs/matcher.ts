import type { LogFilter } from '../../agent-protocol/logs.ts';
import { keptStreams } from './kept-lines.ts';
import type { StoredLine } from './record.ts';

/** Decides which stored lines a filter selects. */
export interface Matcher {
  matches(line: StoredLine): boolean;
  /** First and last time, in milliseconds since 1970, inclusive. */
  since: number;
  until: number;
  /** Only lines about the making of images match. */
  isOfKept: boolean;
}

export function matcher(filter: Omit<LogFilter, 'workload_id'>): Matcher {
  const instances = filter.instance_ids === undefined ? undefined : new Set(filter.instance_ids);
  const streams = filter.streams === undefined ? undefined : new Set(filter.streams);
  const levels = filter.levels === undefined ? undefined : new Set(filter.levels);
  const search = filter.search?.toLowerCase() ?? '';
  const since = filter.since === undefined ? Number.NEGATIVE_INFINITY : time(filter.since);
  const until = filter.until === undefined ? Number.POSITIVE_INFINITY : time(filter.until);
  return {
    since,
    until,
    isOfKept: streams !== undefined && [...streams].every((stream) => keptStreams.has(stream as StoredLine['stream'])), // any text
    matches: (line) =>
      line.at >= since &&
      line.at <= until &&
      instances?.has(line.instance) !== false &&
      streams?.has(line.stream) !== false &&
      levels?.has(line.level) !== false &&
      (search === '' || line.message.toLowerCase().includes(search)),
  };
}

/** @throws RangeError if the text is not a time */
function time(text: string): number {
  const ms = Date.parse(text);
  if (Number.isNaN(ms)) throw new RangeError(`Cannot read time ${JSON.stringify(text)}: it must be RFC 3339`);
  return ms;
}
