import { pino } from 'pino';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { LogHub } from '../../api/streams/log-hub.ts';
import type { LogSink } from '../../api/streams/log-sink.ts';
import { LogTail } from '../../api/streams/log-tail.ts';
import { CallError } from '../../agent-protocol/call-error.ts';
import { LogPage } from '../../agent-protocol/logs.ts';
import type { LogChunk, LogLine } from '../../agent-protocol/logs.ts';
import { scriptedAgents } from '../harness/api.ts';
import { FakeClock } from '../harness/fake-clock.ts';
import { idle } from '../harness/idle.ts';

/** A reader whose room the test decides. */
class Reader implements LogSink {
  readonly seen: number[] = [];
  readonly losses: number[] = [];
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

  lost(count: number): void {
    this.losses.push(count);
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
  const from = (stored.at(-1)?.seq ?? 0) + 1;
  const lines = Array.from({ length: count }, (_, n) => ({
    seq: from + n,
    timestamp: '2026-01-01T00:00:00.000Z',
    stream: 'stdout' as const,
    level: 'info' as const,
    message: `line ${n}`,
    instance_id: 'i',
  }));
  stored.push(...lines);
  for (let at = 0; at < count; at += 100) chunks.push({ lines: lines.slice(at, at + 100) });
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
    expect(reader.losses).toEqual([]);
  });

  describe('from whose log the server has removed lines before they were read', () => {
    /** The lines after number 40,000 are left, of which the third ones have a text to search for. */
    function removed(count: number): void {
      write(40_000 + count);
      stored = stored.slice(40_000).map((line) => (line.seq % 3 === 0 ? { ...line, message: 'found' } : line));
      chunks = [];
      agents.answer = (_, params): LogPage => {
        if (params.method !== 'logs.read') throw new Error(`Unexpected call: ${params.method}`);
        const { after_seq = 0, tail, search = '' } = params.query;
        const after = stored.filter(({ seq }) => seq > after_seq);
        const matching = after.filter(({ message }) => message.includes(search));
        const lines = matching.slice(0, tail);
        const end_seq = (lines.length < matching.length ? lines : stored).at(-1)?.seq ?? after_seq;
        const lost_lines = end_seq - after_seq - after.filter(({ seq }) => seq <= end_seq).length;
        const more = lines.length < matching.length && { next_seq: end_seq };
        return { lines, truncated: lost_lines > 0, end_seq, lost_lines, ...more };
      };
    }
    const goOn = (search?: string): Reader => {
      const sink = new Reader();
      const follow = { workload_id: 'w', tail: 0, after_seq: 5000, ...(search !== undefined && { search }) };
      const tail = new LogTail({ agents, hub, mirror, clock, tenant: 't' }, { server: 's', follow, sink });
      running.push(tail.run(over.signal));
      return sink;
    };

    it.each([6000, 100])('says once how many are gone, where %d lines are left', async (left) => {
      removed(left);
      const reader = goOn();
      await idle();
      expect([reader.seen.length, reader.losses]).toEqual([left, [35_000]]);
      write(100);
      await idle();
      expect([reader.seen.length, reader.losses]).toEqual([left + 100, [35_000]]);
    });

    it('counts no line that is there and does not match', async () => {
      removed(18_000);
      const reader = goOn('found');
      await idle();
      expect([reader.seen.length, reader.losses]).toEqual([6000, [35_000]]);
    });

    it('says it once where no line matches', async () => {
      removed(100);
      const reader = goOn('nowhere');
      await idle();
      write(100);
      await idle();
      expect([reader.seen, reader.losses]).toEqual([[], [35_000]]);
    });

    it('does not invent a count for an agent of an earlier release', async () => {
      removed(100);
      const { answer } = agents;
      agents.answer = (...call) => {
        const { lines, truncated, next_seq } = LogPage.parse(answer?.(...call));
        return { lines, truncated, ...(next_seq !== undefined && { next_seq }) };
      };
      const reader = goOn('found');
      await idle();
      expect([reader.seen.length, reader.losses]).toEqual([33, [1]]);
    });
  });

  it('gets live lines also while the agent has no stream to spare, and by a stream once it has one', async () => {
    const { follow } = agents;
    let streams = 0;
    let hasRoom = false;
    agents.follow = (...asked) => {
      if (!hasRoom) throw new CallError('too_many', 'At most 64 streams per server at once');
      streams += 1;
      if (follow === undefined) throw new Error('No stream');
      return follow(...asked);
    };
    const reader = read();
    await idle();
    write(3);
    await clock.advance(3000);
    await idle();
    expect(reader.seen).toEqual(upTo(3));
    hasRoom = true;
    chunks = [];
    await clock.advance(30_000);
    await idle();
    write(2);
    await idle();
    expect([streams, reader.seen]).toEqual([1, upTo(5)]);
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
