import { once } from 'node:events';
import { CallError } from '../../agent-protocol/call-error.ts';
import type { LogChunk, LogFilter, LogLine, LogPage, LogQuery } from '../../agent-protocol/logs.ts';
import type { CallParams, LogStreamParams } from '../../agent-protocol/messages.ts';
import type { ScriptedAgents } from './api.ts';

/** The log store of one agent in memory, for one workload. */
export interface AgentLog {
  lines: LogLine[];
  /** Streams that are open. */
  open: number;
  /** Queries that were read. */
  reads: LogQuery[];
  add(...messages: string[]): void;
  /** Adds a line with this time, in milliseconds since 1970. */
  addAt(at: number, message: string): void;
  /** Adds a line that this instance wrote. */
  addBy(instance: string, message: string): void;
  /** Ends every stream, as a connection does that breaks. */
  cut(): void;
}

/** Lets the agents answer from a log, as a real one does: stored lines, then live ones, at the reader's pace. */
export function agentLog(
  agents: Pick<ScriptedAgents, 'answer' | 'follow'>,
  { instance = 'i', stream = 'stdout' }: { instance?: string; stream?: LogLine['stream'] } = {},
): AgentLog {
  const added = new EventTarget();
  let cut = new AbortController();
  const log: AgentLog = {
    lines: [],
    open: 0,
    reads: [],
    add(...messages) {
      for (const message of messages) push(message, undefined);
      added.dispatchEvent(new Event('line'));
    },
    addAt(at, message) {
      push(message, at);
      added.dispatchEvent(new Event('line'));
    },
    addBy(other, message) {
      push(message, undefined, other);
      added.dispatchEvent(new Event('line'));
    },
    cut() {
      cut.abort();
      cut = new AbortController();
    },
  };
  const push = (message: string, at: number | undefined, by = instance): void => {
    const seq = (log.lines.at(-1)?.seq ?? 0) + 1;
    const timestamp = new Date(at ?? Date.UTC(2026, 0, 1) + seq).toISOString();
    log.lines.push({ seq, timestamp, stream, level: 'info', message, instance_id: by });
  };
  const matching = (filter: LogFilter): LogLine[] =>
    log.lines.filter(
      (line) =>
        filter.instance_ids?.includes(line.instance_id) !== false &&
        filter.streams?.includes(line.stream) !== false &&
        filter.levels?.includes(line.level) !== false &&
        (filter.since === undefined || line.timestamp >= filter.since) &&
        line.message.includes(filter.search ?? ''),
    );

  agents.answer = (_server: string, params: CallParams): LogPage => {
    if (params.method !== 'logs.read') throw new CallError('unsupported', params.method);
    const { query } = params;
    log.reads.push(query);
    const all = matching(query);
    if (query.after_seq === undefined) return { lines: all.slice(-query.tail), truncated: false };
    const after = query.after_seq;
    const lines = all.filter(({ seq }) => seq > after);
    const page = lines.slice(0, query.tail);
    return { lines: page, truncated: false, ...(page.length < lines.length && { next_seq: page.at(-1)!.seq }) };
  };
  agents.follow = async function* (
    _server: string,
    { follow }: LogStreamParams,
    signal: AbortSignal,
  ): AsyncGenerator<LogChunk> {
    const over = AbortSignal.any([signal, cut.signal]);
    log.open += 1;
    try {
      let seen = follow.after_seq ?? log.lines.at(-1)?.seq ?? 0;
      const stored = follow.after_seq === undefined && follow.tail > 0 ? matching(follow).slice(-follow.tail) : [];
      if (stored.length > 0) yield { lines: stored };
      for (;;) {
        const lines = matching(follow).filter((line) => line.seq > seen);
        const chunk = lines.slice(0, 1000);
        seen = (chunk.length < lines.length ? chunk.at(-1)?.seq : log.lines.at(-1)?.seq) ?? seen;
        if (chunk.length > 0) yield { lines: chunk };
        // registered in the same turn as the look at what there is, so that no line comes between
        else if (!over.aborted) await once(added, 'line', { signal: over }).catch(() => undefined);
        if (over.aborted) throw new CallError('away', 'The connection broke');
      }
    } finally {
      log.open -= 1;
    }
  };
  return log;
}

/** The log stores of many agents: one log per workload. */
export function agentLogs(agents: ScriptedAgents): {
  /** The log of a workload. */
  of(workload: string): AgentLog;
  /** Servers whose agents do not answer. Cut the logs of a server that is added. */
  away: Set<string>;
} {
  const logs = new Map<string, { log: AgentLog; script: Pick<ScriptedAgents, 'answer' | 'follow'> }>();
  const away = new Set<string>();
  const known = (workload: string) => {
    let found = logs.get(workload);
    if (found === undefined) {
      const script: Pick<ScriptedAgents, 'answer' | 'follow'> = { answer: undefined, follow: undefined };
      found = { log: agentLog(script), script };
      logs.set(workload, found);
    }
    return found;
  };
  const reach = (server: string): void => {
    if (away.has(server)) throw new CallError('away', 'The agent is away');
  };
  agents.answer = (server, params) => {
    reach(server);
    if (params.method !== 'logs.read') throw new CallError('unsupported', params.method);
    return known(params.query.workload_id).script.answer?.(server, params);
  };
  agents.follow = async function* (server, params, signal) {
    reach(server);
    const { follow } = known(params.follow.workload_id).script;
    if (follow !== undefined) yield* follow(server, params, signal);
  };
  return { of: (workload) => known(workload).log, away };
}
