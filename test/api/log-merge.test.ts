import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { SharedLogChunk } from '../../api/streams/log-chunk.ts';
import { LogMerge } from '../../api/streams/log-merge.ts';
import type { MergedSource } from '../../api/streams/log-merge.ts';
import type { PreparedFrame } from '../../api/streams/prepared-frame.ts';
import { FakeClock } from '../harness/fake-clock.ts';
import { idle } from '../harness/idle.ts';

let clock: FakeClock;
let closing: AbortController;
let sent: Record<string, unknown>[];
/** While it is set, the reader takes nothing. */
let stuck: PromiseWithResolvers<void> | undefined;
let merge: LogMerge;
let running: Promise<void>;

beforeEach(() => {
  clock = new FakeClock();
  closing = new AbortController();
  sent = [];
  stuck = undefined;
  const channel = {
    signal: closing.signal,
    send: (frame: object | PreparedFrame) => void sent.push(frame as Record<string, unknown>),
    sendAll: (frames: readonly PreparedFrame[]) => void sent.push(...frames.map(({ text }) => JSON.parse(text))),
    drained: async () => stuck?.promise,
  };
  merge = new LogMerge(channel, clock);
  running = merge.run(() => ({ type: 'cursor' }));
});
afterEach(async () => {
  closing.abort();
  stuck?.resolve();
  await running;
});

/** A source that reads nothing stored. */
function live(name: string): MergedSource {
  const source = merge.add({ kind: 'application', id: name, name });
  source.sink.reading(false);
  return source;
}

const numbers = new WeakMap<MergedSource, number>();

/** Sends lines with times in ms before or after now. */
function send(source: MergedSource, ...lines: (readonly [at: number, message: string])[]): Promise<void> {
  const chunk = lines.map(([at, message]) => {
    const seq = (numbers.get(source) ?? 0) + 1;
    numbers.set(source, seq);
    const timestamp = new Date(clock.now().getTime() + at).toISOString();
    return { seq, timestamp, stream: 'stdout' as const, level: 'info' as const, message, instance_id: 'i' };
  });
  source.sink.send(new SharedLogChunk(chunk), () => true);
  return source.sink.drained();
}

const messages = (): unknown[] => sent.filter(({ type }) => type === 'log').map(({ message }) => message);

describe('a merge of logs', () => {
  it('holds a line for 300 ms, so that earlier ones of another source come before it', async () => {
    const [one, two] = [live('one'), live('two')];
    await send(one, [-10, 'second']);
    await clock.advance(200);
    expect(messages()).toEqual([]);
    await send(two, [-250, 'first']);
    await clock.advance(99);
    expect(messages()).toEqual(['first']);
    await clock.advance(1);
    expect(messages()).toEqual(['first', 'second']);
    expect(sent.at(-1)).toEqual({ type: 'cursor' });
  });

  it('sends a line that comes later than that at once, after later ones', async () => {
    const [one, two] = [live('one'), live('two')];
    await send(one, [0, 'second']);
    await clock.advance(300);
    await send(two, [-1000, 'first']);
    await send(one, [0, 'third']);
    await idle();
    expect(messages()).toEqual(['second', 'first']);
    await clock.advance(300);
    expect(messages()).toEqual(['second', 'first', 'third']);
  });

  it('does not hold the lines of a single source, nor of sources from which all have lines', async () => {
    const one = live('one');
    await send(one, [0, 'alone']);
    await idle();
    expect(messages()).toEqual(['alone']);
    const two = live('two');
    await send(two, [5, 'b']);
    await send(one, [-5, 'a']);
    await idle();
    expect(messages()).toEqual(['alone', 'a']);
  });

  it('waits 2 s for a source whose stored lines are read, and no longer for one that does not answer', async () => {
    const one = live('one');
    const two = merge.add({ kind: 'application', id: 'two', name: 'two' });
    await send(one, [-10, 'second']);
    await clock.advance(1_000);
    expect(messages()).toEqual([]);
    await send(two, [-5_000, 'first']);
    await idle();
    expect(messages()).toEqual(['first']);
    await clock.advance(2_000);
    expect(messages()).toEqual(['first', 'second']);
    await send(one, [0, 'third']);
    await clock.advance(300);
    expect(messages()).toEqual(['first', 'second', 'third']);
  });

  it('keeps the order of a source whose clock goes back or is ahead', async () => {
    const [one, two] = [live('one'), live('two')];
    await send(one, [3_600_000, 'a'], [-3_600_000, 'b'], [0, 'c']);
    await send(two, [-1, 'before']);
    await clock.advance(300);
    expect(messages()).toEqual(['before', 'a', 'b', 'c']);
    await send(two, [1, 'after']);
    await clock.advance(300);
    expect(messages()).toEqual(['before', 'a', 'b', 'c', 'after']);
  });

  it('holds a source whose lines wait for a slow reader, and lets it go on when it takes them', async () => {
    const [one] = [live('one')];
    stuck = Promise.withResolvers();
    await send(one, [0, 'taken']);
    await idle();
    let hasRoom = false;
    const sending = send(one, ...Array.from({ length: 1_000 }, (_, n) => [n, String(n)] as const)).then(() => {
      hasRoom = true;
    });
    await idle();
    expect([hasRoom, one.sink.isFull, messages().length]).toEqual([false, true, 1]);
    stuck.resolve();
    stuck = undefined;
    await sending;
    await idle();
    expect([one.sink.isFull, messages().length, one.position]).toEqual([false, 1_001, 1_001]);
  });

  it('sends nothing of a source that left, and lets its tail end', async () => {
    const [one, two] = [live('one'), live('two')];
    stuck = Promise.withResolvers();
    const sending = send(one, ...Array.from({ length: 1_000 }, (_, n) => [n, String(n)] as const));
    await send(two, [5, 'other']);
    const before = messages().length;
    one.leave();
    await sending;
    stuck.resolve();
    stuck = undefined;
    await clock.advance(300);
    expect(messages().slice(before)).toEqual(['other']);
  });
});
