import { createHash } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import { CallError } from '../../agent-protocol/call-error.ts';
import { encodeMessage } from '../../agent-protocol/codec.ts';
import { decodeData, encodeData } from '../../agent-protocol/data-frame.ts';
import type { ControlMessage, StreamParams } from '../../agent-protocol/messages.ts';
import { bounds } from '../../agent-protocol/timing.ts';
import { FakeClock, settle } from '../harness/fake-clock.ts';
import { protocolEnds } from '../harness/protocol-ends.ts';
import type { Ends } from '../harness/protocol-ends.ts';
import { seeded } from '../harness/seeded.ts';

const params: StreamParams = { kind: 'logs', follow: { workload_id: 'w', tail: 0 } };
const never = new AbortController().signal;

type Bytes = AsyncIterable<Uint8Array>;

async function up(capabilities = ['streams.duplex']): Promise<Ends & { clock: FakeClock }> {
  const clock = new FakeClock();
  const ends = protocolEnds(clock, { capabilities });
  await settle(30);
  return { ...ends, clock };
}

async function collect(stream: Bytes): Promise<Buffer> {
  const parts: Uint8Array[] = [];
  for await (const part of stream) parts.push(part);
  return Buffer.concat(parts);
}

async function textOf(stream: Bytes): Promise<string> {
  return (await collect(stream)).toString();
}

async function* bytesOf(...chunks: string[]): AsyncGenerator<Uint8Array> {
  for (const chunk of chunks) yield Buffer.from(chunk);
}

/** Bytes that a test hands over one by one. It counts what was asked for, and knows when it was left. */
class Feed implements AsyncIterableIterator<Uint8Array> {
  asked = 0;
  isLeft = false;
  readonly #make: () => Promise<IteratorResult<Uint8Array, undefined>>;

  constructor(make: () => Promise<IteratorResult<Uint8Array, undefined>> = () => new Promise(() => undefined)) {
    this.#make = make;
  }

  static endless(size: number): Feed {
    return new Feed(() => Promise.resolve({ done: false, value: new Uint8Array(size) }));
  }

  next(): Promise<IteratorResult<Uint8Array, undefined>> {
    this.asked++;
    return this.#make();
  }

  async return(): Promise<IteratorResult<Uint8Array, undefined>> {
    this.isLeft = true;
    return { done: true, value: undefined };
  }

  [Symbol.asyncIterator](): this {
    return this;
  }
}

/** Deterministic bytes of that length in chunks of odd sizes, and their hash. */
function stuff(total: number, seed: number) {
  const random = seeded(seed).uniform;
  const block = Buffer.from(Array.from({ length: 65_537 }, () => Math.floor(random() * 256)));
  async function* chunks(): AsyncGenerator<Uint8Array> {
    for (let left = total; left > 0;) {
      const size = Math.min(left, 1 + Math.floor(random() * block.length));
      left -= size;
      yield block.subarray(block.length - size);
    }
  }
  return chunks();
}

async function hashOf(stream: Bytes): Promise<{ bytes: number; hash: string }> {
  const hash = createHash('sha256');
  let bytes = 0;
  for await (const chunk of stream) {
    bytes += chunk.length;
    hash.update(chunk);
  }
  return { bytes, hash: hash.digest('hex') };
}

describe('a stream in both directions', () => {
  it('brings 64 MiB each way at once, every byte in order', async () => {
    const { control, backend, pair } = await up();
    const total = 64 * 1024 * 1024;
    const arrived = Promise.withResolvers<{ bytes: number; hash: string }>();
    backend.onStream = (_, _signal, incoming) => {
      hashOf(incoming).then(arrived.resolve, arrived.reject);
      return stuff(total, 2);
    };
    const forget = setInterval(() => {
      for (const end of [pair.agent, pair.control]) end.sent.length = 0; // the frames would all stay in memory
    }, 1);
    const output = await hashOf(control.duplex(params, stuff(total, 1), never));
    const input = await arrived.promise;
    clearInterval(forget);
    expect(input).toEqual(await hashOf(stuff(total, 1)));
    expect(output).toEqual(await hashOf(stuff(total, 2)));
    expect(input.bytes).toBe(total);
  });

  it('sends no byte beyond its credit, whatever the sizes of chunks and the pauses of readers', async () => {
    for (let seed = 1; seed <= 20; seed++) {
      const random = seeded(seed).uniform;
      const { control, backend, pair } = await up();
      const credit = { agent: 0, control: 0 };
      /** Bytes that may still be sent, by what the sender has received so far. */
      const spend = (by: 'agent' | 'control'): void => {
        const end = pair[by];
        const send = end.send.bind(end);
        end.send = (frame) => {
          if (typeof frame !== 'string') credit[by] -= decodeData(frame)?.payload.length ?? 0;
          expect(credit[by], `seed ${seed}`).toBeGreaterThanOrEqual(0);
          send(frame);
        };
      };
      spend('agent');
      spend('control');
      pair.fault = (by, _n, frame) => {
        if (typeof frame !== 'string') return 'deliver';
        const message = JSON.parse(frame) as { type: string; credit?: number; bytes?: number };
        if (message.type === 'stream.open' || message.type === 'stream.accept')
          credit[by === 'agent' ? 'control' : 'agent'] += message.credit ?? 0;
        if (message.type === 'stream.credit') credit[by === 'agent' ? 'control' : 'agent'] += message.bytes ?? 0;
        return 'deliver';
      };
      const lazily = async (stream: Bytes): Promise<number> => {
        let bytes = 0;
        for await (const chunk of stream) {
          bytes += chunk.length;
          if (random() < 0.3) await settle(Math.floor(random() * 20));
        }
        return bytes;
      };
      const arrived = Promise.withResolvers<number>();
      backend.onStream = (_, _signal, incoming) => {
        lazily(incoming).then(arrived.resolve, arrived.reject);
        return stuff(1_500_000, seed + 1);
      };
      expect(await lazily(control.duplex(params, stuff(2_000_000, seed), never))).toBe(1_500_000);
      expect(await arrived.promise).toBe(2_000_000);
    }
  }, 60_000);

  it('answers after its input has ended', async () => {
    const { control, backend } = await up();
    backend.onStream = async function* (_, _signal, incoming) {
      const text = await textOf(incoming);
      yield Buffer.from(text.toUpperCase());
    };
    expect(await textOf(control.duplex(params, bytesOf('some ', 'words'), never))).toBe('SOME WORDS');
  });

  it('goes on with its input after its output has ended, also beyond the exchange of live streams', async () => {
    const { control, backend, clock, agent, pair } = await up();
    const read = Promise.withResolvers<string>();
    const ready = Promise.withResolvers<void>();
    backend.onStream = (_, _signal, incoming) => {
      textOf(incoming).then(read.resolve, read.reject);
      return bytesOf('first');
    };
    async function* outgoing(): AsyncGenerator<Uint8Array> {
      yield Buffer.from('one ');
      await ready.promise;
      yield Buffer.from('two');
    }
    expect(await textOf(control.duplex(params, outgoing(), never))).toBe('first');
    await clock.advance(95_000);
    ready.resolve();
    expect(await read.promise).toBe('one two');
    await settle(30);
    // Then neither side knows it any more.
    for (const end of [pair.agent, pair.control]) end.sent.length = 0;
    agent.receive(encodeMessage({ type: 'stream.live', streams: [1] }));
    expect(pair.agent.messages).toMatchObject([{ type: 'stream.reset', stream: 1, code: 'away' }]);
    await clock.advance(31_000);
    const live = [...pair.agent.messages, ...pair.control.messages].filter(({ type }) => type === 'stream.live');
    expect(live.map(({ streams }) => streams)).toEqual([[], []]);
  });

  it('takes no more input once its output has ended and its input is not read', async () => {
    const { control, backend } = await up();
    const feed = Feed.endless(1000);
    backend.onStream = () => bytesOf('done');
    expect(await textOf(control.duplex(params, feed, never))).toBe('done');
    await settle(30);
    expect(feed.isLeft).toBe(true);
  });

  it('leaves a source that waits when the agent reads no more, and its output goes on', async () => {
    const { control, backend } = await up();
    const feed = new Feed();
    const more = Promise.withResolvers<void>();
    backend.onStream = async function* (_, _signal, incoming) {
      const input = incoming[Symbol.asyncIterator]();
      const waiting = input.next();
      await input.return?.();
      expect((await waiting).done).toBe(true);
      yield Buffer.from('one ');
      await more.promise;
      yield Buffer.from('two');
    };
    const reading = textOf(control.duplex(params, feed, never));
    await settle(50);
    expect(feed.isLeft).toBe(true);
    more.resolve();
    expect(await reading).toBe('one two');
  });

  it('brings the failure of its source to the agent after what had come, and the answer of the agent back', async () => {
    const { control, backend } = await up();
    backend.onStream = async function* (_, _signal, incoming) {
      let text = '';
      try {
        for await (const chunk of incoming) text += Buffer.from(chunk).toString();
      } catch (error) {
        yield Buffer.from(`${text} then ${(error as CallError).code}`);
      }
    };
    async function* broken(): AsyncGenerator<Uint8Array> {
      yield Buffer.from('half');
      throw new CallError('upload_broken', 'The upload broke off');
    }
    const parts: string[] = [];
    const read = async (): Promise<void> => {
      for await (const part of control.duplex(params, broken(), never)) parts.push(Buffer.from(part).toString());
    };
    await expect(read()).rejects.toMatchObject({ code: 'upload_broken' });
    expect(parts.join('')).toBe('half then upload_broken');
  });

  it('fails with the words of the agent, and its source is left', async () => {
    const { control, backend } = await up();
    const feed = new Feed();
    const outcome = Promise.withResolvers<unknown>();
    backend.onStream = async function* (_, _signal, incoming) {
      textOf(incoming).catch(outcome.resolve);
      yield Buffer.from('some');
      throw new CallError('no_shell', 'The container has no shell');
    };
    const failing = textOf(control.duplex(params, feed, never));
    await expect(failing).rejects.toMatchObject({ code: 'no_shell', message: 'The container has no shell' });
    expect(await outcome.promise).toMatchObject({ code: 'no_shell' });
    expect(feed.isLeft).toBe(true);
  });

  it.each(['the loop is left', 'the signal aborts'])('is stopped in both directions when %s', async (how) => {
    const { control, backend } = await up();
    const stopped = Promise.withResolvers<unknown>();
    const seen = Promise.withResolvers<unknown>();
    const feed = Feed.endless(100_000);
    backend.onStream = async function* (_, signal, incoming) {
      signal.addEventListener('abort', () => stopped.resolve(signal.reason), { once: true });
      const input = incoming[Symbol.asyncIterator]();
      await input.next();
      yield Buffer.from('some');
      await stopped.promise;
      // Bytes that had arrived are not handed out any more: no input is used after the end.
      input.next().catch(seen.resolve);
    };
    const stop = new AbortController();
    const reader = control.duplex(params, feed, stop.signal);
    await reader.next();
    await settle(100);
    if (how === 'the loop is left') await reader.return();
    else {
      stop.abort(new Error('enough'));
      await expect(reader.next()).rejects.toThrow('enough');
    }
    expect(await stopped.promise).toMatchObject({ code: 'stopped' });
    expect(await seen.promise).toMatchObject({ code: 'stopped' });
    expect(feed.isLeft).toBe(true);
  });

  it('ends as away on both sides when the session is lost, and nothing of it is there in the next', async () => {
    const { control, backend, pair } = await up();
    const seen = Promise.withResolvers<unknown>();
    const feed = new Feed();
    backend.onStream = async function* (_, signal, incoming) {
      textOf(incoming).catch(seen.resolve);
      yield Buffer.from('some');
      await new Promise((resolve) => signal.addEventListener('abort', resolve, { once: true }));
    };
    const reader = control.duplex(params, feed, never);
    await reader.next();
    const next = expect(reader.next()).rejects.toMatchObject({ code: 'away' });
    pair.cut();
    await next;
    expect(await seen.promise).toMatchObject({ code: 'away' });
    expect(feed.isLeft).toBe(true);
  });

  it('holds no more than its window of input that is not read, and holds up nothing else', async () => {
    const { control, backend, pair, clock, host } = await up();
    const size = 10_000;
    const feed = Feed.endless(size);
    let streams = 0;
    backend.onStream = async function* (_, signal, incoming) {
      if (streams++ > 0) {
        yield* incoming;
        return;
      }
      yield Buffer.from('deaf');
      await new Promise((resolve) => signal.addEventListener('abort', resolve, { once: true }));
    };
    const deaf = control.duplex(params, feed, never);
    await deaf.next();
    await settle(200);
    const sent = pair.control.sent
      .filter((frame) => typeof frame !== 'string')
      .reduce((sum, frame) => sum + (decodeData(frame)?.payload.length ?? 0), 0);
    expect(sent).toBe(bounds.windowBytes);
    expect(feed.asked * size).toBeLessThanOrEqual(bounds.windowBytes + size);
    expect(pair.control.buffered).toBe(0);
    expect(await textOf(control.duplex(params, bytesOf('echo'), never))).toBe('echo');
    await expect(control.call({ method: 'ping' }, 1000, never)).resolves.toEqual({});
    await clock.advance(60_000);
    expect(feed.asked * size).toBeLessThanOrEqual(bounds.windowBytes + size);
    expect(host.ends).toEqual([]);
    await deaf.return();
  });

  it('waits for a socket that is full, and holds no more than the gate', async () => {
    const { control, backend, pair } = await up();
    backend.onStream = (_, _signal, incoming) => incoming;
    const feeds = Array.from({ length: 12 }, () => Feed.endless(32 * 1024));
    const readers = feeds.map((feed) => control.duplex(params, feed, never));
    const reads = readers.map((reader) => reader.next());
    await Promise.all(reads);
    pair.control.stalled = true;
    for (const reader of readers) void reader.next();
    await settle(400);
    expect(pair.control.buffered).toBeLessThan(bounds.gateBytes + 64 * 1024);
    pair.control.release();
    await Promise.all(readers.map((reader) => reader.return()));
  });

  it('takes turns with a desired set that waits for the same socket', async () => {
    const { control, backend, pair } = await up();
    backend.onStream = (_, _signal, incoming) => incoming;
    const more = Promise.withResolvers<void>();
    async function* outgoing(): AsyncGenerator<Uint8Array> {
      yield Buffer.from('first');
      await more.promise;
      yield* stuff(200_000, 1);
    }
    function* parts(): Generator<ControlMessage> {
      for (let n = 0; n < 5; n++) yield { type: 'delta', from: 1, to: 1, put: [], drop: ['x'.repeat(100_000)] };
    }
    const reader = control.duplex(params, outgoing(), never);
    await reader.next();
    await settle(30);
    pair.control.stalled = true;
    control.keepImages({ w: ['x'.repeat(bounds.gateBytes + 1)] }, false);
    more.resolve();
    await settle(30);
    pair.control.sent.length = 0;
    control.delta(parts());
    pair.control.release();
    let bytes = 0;
    for await (const chunk of reader) bytes += chunk.length;
    expect(bytes).toBe(200_000);
    const kinds = pair.control.sent.map((frame) => (typeof frame === 'string' ? frame.slice(9, 14) : 'bytes'));
    expect(kinds.indexOf('bytes')).toBeLessThan(kinds.lastIndexOf('delta'));
    expect(kinds.indexOf('delta')).toBeLessThan(kinds.lastIndexOf('bytes'));
  });

  it('is no flood of messages, however many of them give credit', async () => {
    const { control, backend, host } = await up();
    backend.onStream = async function* (_, _signal, incoming) {
      yield Buffer.from('open');
      for await (const _chunk of incoming);
    };
    const idle = Array.from({ length: 40 }, () => control.duplex(params, new Feed(), never));
    await Promise.all(idle.map((reader) => reader.next()));
    // It gets the small window, so that the agent sends a message per 32 KiB at least: more than a flood has in 10 s.
    const total = (bounds.messagesPer10s + 100) * bounds.smallWindowBytes;
    expect(await textOf(control.duplex(params, stuff(total, 1), never))).toBe('open');
    expect(host.ends).toEqual([]);
    await Promise.all(idle.map((reader) => reader.return()));
  });

  it('whose control plane exceeds its credit ends the session', async () => {
    const { control, backend, agent, agentEnds } = await up();
    backend.onStream = async function* (_, signal) {
      yield Buffer.from('deaf');
      await new Promise((resolve) => signal.addEventListener('abort', resolve, { once: true }));
    };
    const reader = control.duplex(params, new Feed(), never);
    await reader.next();
    for (let n = 0; n < 9; n++)
      agent.receive(encodeData({ stream: 1, end: false, payload: new Uint8Array(32 * 1024) }));
    expect(agentEnds).toEqual([{ kind: 'lost', why: 'Sent more than it was granted' }]);
    await reader.return().catch(() => undefined);
  });

  it('takes nothing of its source before the agent has accepted it', async () => {
    const { control, pair, clock } = await up();
    const feed = new Feed();
    pair.agent.stalled = true;
    const outcome = expect(collect(control.duplex(params, feed, never))).rejects.toMatchObject({ code: 'timeout' });
    await clock.advance(10_001);
    await outcome;
    expect(feed.asked).toBe(0);
  });

  it('is not asked of an agent of an earlier release: the user learns what to do', async () => {
    const { control, pair } = await up([]);
    await expect(collect(control.duplex(params, bytesOf('x'), never))).rejects.toMatchObject({
      code: 'unsupported',
      message: 'The agent of the server is of an earlier release: upgrade the agent',
    });
    expect(pair.control.messages.filter(({ type }) => type === 'stream.open')).toEqual([]);
  });

  it('does not change what is sent for a stream of logs', async () => {
    const { control, backend, pair } = await up();
    backend.onStream = () => bytesOf('line');
    for (const end of [pair.agent, pair.control]) end.sent.length = 0;
    expect(await textOf(control.stream(params, never))).toBe('line');
    await settle(30);
    expect(pair.control.messages).toEqual([{ type: 'stream.open', stream: 1, params, credit: bounds.windowBytes }]);
    expect(pair.agent.messages).toEqual([{ type: 'stream.accept', stream: 1 }]);
  });
});
