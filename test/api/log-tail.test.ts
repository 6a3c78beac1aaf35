import { pino } from 'pino';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { LogHub } from '../../api/streams/log-hub.ts';
import type { LogSink } from '../../api/streams/log-sink.ts';
import { LogTail } from '../../api/streams/log-tail.ts';
import { CallError } from '../../agent-protocol/call-error.ts';
import type { LogChunk, LogLine, LogPage } from '../../agent-protocol/logs.ts';
import { scriptedAgents } from '../harness/api.ts';
import { FakeClock } from '../harness/fake-clock.ts';
import { idle } from '../harness/idle.ts';

/** A reader whose room the test decides. */
class Reader implements LogSink {
  readonly seen: number[] = [];
  #room: PromiseWithResolvers<void> | undefined;

  get isFull(): boolean {
    return this.#room !== undefined;
  }

  stop(): void {
    this.#room = Promise.withResolvers();
  }

  goOn(): void {
    this.#room?.resolve();
    this.#room = undefined;
  }

  lost(): void {
    throw new Error('No line was lost');
  }

  reading(): void {
    // It has one source, for which no other waits.
  }

  send(...[chunk, matches]: Parameters<LogSink['send']>): void {
    this.seen.push(...chunk.lines.filter(matches).map(({ seq }) => seq));
  }

  async drained(): Promise<void> {
    await this.#room?.promise;
  }
}

let stored: LogLine[];
let chunks: LogChunk[];
let arrived: PromiseWithResolvers<void>;
let agents: ReturnType<typeof scriptedAgents>;
let hub: LogHub;
let clock: FakeClock;
let over: AbortController;
const running: Promise<void>[] = [];

const mirror = { key: () => undefined, subscribeKeys: () => () => undefined };

beforeEach(() => {
  stored = [];
  chunks = [];
  arrived = Promise.withResolvers();
  clock = new FakeClock();
  over = new AbortController();
  agents = scriptedAgents();
  agents.answer = (_, params): LogPage => {
    if (params.method !== 'logs.read') throw new Error(`Unexpected call: ${params.method}`);
    const { after_seq, tail } = params.query;
    if (after_seq === undefined) return { lines: stored.slice(-tail), truncated: false };
    const lines = stored.filter(({ seq }) => seq > after_seq).slice(0, tail);
    const last = lines.at(-1)?.seq ?? 0;
    return { lines, truncated: false, ...(last < stored.length && lines.length > 0 && { next_seq: last }) };
  };
  agents.follow = async function* (_server, _params, signal): AsyncGenerator<LogChunk> {
    signal.addEventListener('abort', () => arrived.resolve(), { once: true });
    while (!signal.aborted) {
      const chunk = chunks.shift();
      if (chunk !== undefined) {
        yield chunk;
        continue;
      }
      await arrived.promise;
      arrived = Promise.withResolvers();
    }
  };
  hub = new LogHub({ agents, mirror, clock, log: pino({ level: 'silent' }) });
});
afterEach(async () => {
  over.abort();
  await Promise.all(running.splice(0));
});

/** The workload writes further lines, which come as chunks of one hundred. */
function write(count: number): void {
  const lines = Array.from({ length: count }, (_, n) => ({
    seq: stored.length + n + 1,
    timestamp: '2026-01-01T00:00:00.000Z',
    stream: 'stdout' as const,
    level: 'info' as const,
    message: `line ${n}`,
    instance_id: 'i',
  }));
  stored.push(...lines);
  for (let from = 0; from < count; from += 100) chunks.push({ lines: lines.slice(from, from + 100) });
  arrived.resolve();
}

function read(): Reader {
  const sink = new Reader();
  const follow = { workload_id: 'w', tail: 0 };
  running.push(
    new LogTail({ agents, hub, mirror, clock, tenant: 't' }, { server: 's', follow, sink }).run(over.signal),
  );
  return sink;
}

const upTo = (count: number): number[] => Array.from({ length: count }, (_, n) => n + 1);

describe('a tail of a log', () => {
  it('gets live lines after it was full while it read stored ones, and too many live ones came meanwhile', async () => {
    const reader = read();
    await idle();
    reader.stop();
    // The first live line makes the tail read stored ones; it stands still with a page of them in its hands.
    write(100);
    await idle();
    write(5000);
    await idle();
    reader.goOn();
    await idle();
    expect(reader.seen).toEqual(upTo(5100));
    write(100);
    await idle();
    expect(reader.seen).toEqual(upTo(5200));
  });

  it('of what has ended tells where the agent did not answer', async () => {
    agents.answer = () => {
      throw new CallError('unavailable', 'The agent is not connected');
    };
    const sink = new Reader();
    const follow = { workload_id: 'w', tail: 0, after_seq: 0 };
    const tail = new LogTail({ agents, hub, mirror, clock, tenant: 't' }, { server: 's', follow, sink });
    expect(await tail.finish(over.signal)).toBe(false);
    expect(sink.seen).toEqual([]);
  });
});
