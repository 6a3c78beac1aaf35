import type { LogFilter, LogLine } from '../../agent-protocol/logs.ts';

/** Whether a live line passes a filter, by the rules of the agent for stored lines. */
export function createLogMatcher(filter: LogFilter): (line: LogLine) => boolean {
  const instances = filter.instance_ids && new Set(filter.instance_ids);
  const streams = filter.streams && new Set(filter.streams);
  const levels = filter.levels && new Set(filter.levels);
  const search = filter.search?.toLowerCase() ?? '';
  const since = filter.since === undefined ? -Infinity : Date.parse(filter.since);
  return (line) =>
    (instances === undefined || instances.has(line.instance_id)) &&
    (streams === undefined || streams.has(line.stream)) &&
    (levels === undefined || levels.has(line.level)) &&
    (search === '' || line.message.toLowerCase().includes(search)) &&
    (since === -Infinity || Date.parse(line.timestamp) >= since);
}
