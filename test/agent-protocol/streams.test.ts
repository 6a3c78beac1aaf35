import { describe, expect, it } from 'vitest';
import { CallError } from '../../agent-protocol/call-error.ts';
import { encodeMessage } from '../../agent-protocol/codec.ts';
import { encodeData } from '../../agent-protocol/data-frame.ts';
import { decodeLogChunks, encodeLogChunk, maxLogChunkBytes } from '../../agent-protocol/log-stream.ts';
import type { LogChunk } from '../../agent-protocol/logs.ts';
import type { StreamParams } from '../../agent-protocol/messages.ts';
import { StreamReader } from '../../agent-protocol/stream-receivers.ts';
import { bounds } from '../../agent-protocol/timing.ts';
import { FakeClock, settle } from '../harness/fake-clock.ts';
import { protocolEnds } from '../harness/protocol-ends.ts';
import type { Ends } from '../harness/protocol-ends.ts';

const params: StreamParams = { kind: 'logs', follow: { workload_id: 'w', tail: 0 } };
const never = new AbortController().signal;

async function up(): Promise<Ends & { clock: FakeClock }> {
  const clock = new FakeClock();
  const ends = protocolEnds(clock);
  await settle(30);
  return { ...ends, clock };
}

/** Bytes without end; counts what was pulled. */
function endless(size = 10_000) {
  const state = { pulled: 0, ended: false };
  async function* source(signal: AbortSignal): AsyncGenerator<Uint8Array> {
    try {
      while (!signal.aborted) {
        state.pulled += size;
        yield new Uint8Array(size);
      }
    } finally {
      state.ended = true;
    }
  }
  return { state, source };
}

async function collect(stream: AsyncIterable<Uint8Array>): Promise<Buffer> {
  const parts: Uint8Array[] = [];
  for await (const part of stream) parts.push(part);
  return Buffer.concat(parts);
}

async function* bytesOf(...chunks: (Uint8Array | string)[]): AsyncGenerator<Uint8Array> {
  for (const chunk of chunks) yield typeof chunk === 'string' ? Buffer.from(chunk) : chunk;
}

describe('a stream', () => {
  it('brings every byte in order and ends', async () => {
    const { control, backend } = await up();
    const data = Buffer.alloc(1_000_000, 'setpoint ');
    backend.onStream = () => bytesOf(data.subarray(0, 3), data.subarray(3, 700_000), '', data.subarray(700_000));
    expect((await collect(control.stream(params, never))).equals(data)).toBe(true);
  });

  it('whose reader never reads costs its window, and the source is not pulled on', async () => {
    const { control, backend, pair } = await up();
    const { state, source } = endless();
    backend.onStream = (_, signal) => source(signal);
    const stream = control.stream(params, never);
    const reader = stream[Symbol.asyncIterator]();
    await reader.next();
    await settle(200);
    const { pulled } = state;
    expect(pulled).toBeLessThan(bounds.windowBytes + 50_000);
    await settle(200);
    expect(state.pulled).toBe(pulled);
    expect(pair.agent.buffered).toBe(0);
    await reader.return();
    await settle(30);
    expect(state.ended).toBe(true);
  });

  it('does not hold up messages and beats when its reader does not read', async () => {
    const { control, backend, clock, host } = await up();
    const { source } = endless();
    backend.onStream = (_, signal) => source(signal);
    const reader = control.stream(params, never)[Symbol.asyncIterator]();
    await reader.next();
    await expect(control.call({ method: 'ping' }, 1000, never)).resolves.toEqual({});
    await clock.advance(30_000);
    expect(host.ends).toEqual([]);
    await reader.return();
  });

  it('waits behind messages for a socket that is full, and holds no more than the gate', async () => {
    const { control, backend, pair } = await up();
    const { state, source } = endless(32 * 1024);
    backend.onStream = (_, signal) => source(signal);
    pair.agent.stalled = true;
    const readers = Array.from({ length: 20 }, () => control.stream(params, never)[Symbol.asyncIterator]());
    const reads = readers.map((reader) => reader.next());
    await settle(400);
    expect(pair.agent.buffered).toBeLessThan(bounds.gateBytes + 64 * 1024);
    expect(state.pulled).toBeLessThan(bounds.gateBytes + 21 * 32 * 1024 + 64 * 1024);
    pair.agent.release();
    await Promise.all(reads);
    await Promise.all(readers.map((reader) => reader.return()));
  });

  it('takes turns with the others frame by frame', async () => {
    const { control, backend } = await up();
    const big = endless();
    const firsts: string[] = [];
    backend.onStream = (_, signal) => (firsts.length++ === 0 ? big.source(signal) : bytesOf('small'));
    const stop = new AbortController();
    const reading = collect(control.stream(params, stop.signal)).catch(() => undefined);
    await settle(50);
    expect((await collect(control.stream(params, never))).toString()).toBe('small');
    stop.abort(new Error('enough'));
    await reading;
  });

  it('stops its source when the signal of the reader aborts', async () => {
    const { control, backend } = await up();
    const { state, source } = endless();
    backend.onStream = (_, signal) => source(signal);
    const stop = new AbortController();
    const reading = expect(collect(control.stream(params, stop.signal))).rejects.toThrow('enough');
    await settle(20);
    stop.abort(new Error('enough'));
    await reading;
    await settle(30);
    expect(state.ended).toBe(true);
  });

  it('fails with the words of its source', async () => {
    const { control, backend } = await up();
    backend.onStream = async function* () {
      yield Buffer.from('some');
      throw new CallError('gone', 'The workload has no logs');
    };
    const stream = control.stream(params, never);
    await expect(collect(stream)).rejects.toMatchObject({ code: 'gone', message: 'The workload has no logs' });
  });

  it('fails as away when the connection breaks, after what had arrived was read', async () => {
    const { control, backend, pair } = await up();
    backend.onStream = async function* (_, signal) {
      yield Buffer.from('some');
      await new Promise((resolve) => signal.addEventListener('abort', resolve, { once: true }));
    };
    const reader = control.stream(params, never)[Symbol.asyncIterator]();
    await settle(5);
    const first = reader.next();
    await settle(20);
    pair.cut();
    expect(Buffer.from((await first).value as Uint8Array).toString()).toBe('some');
    await expect(reader.next()).rejects.toMatchObject({ code: 'away' });
  });

  it('that the agent does not accept in time fails', async () => {
    const { control, pair, clock } = await up();
    pair.agent.stalled = true;
    const outcome = expect(collect(control.stream(params, never))).rejects.toMatchObject({ code: 'timeout' });
    await clock.advance(10_001);
    await outcome;
  });

  it('beyond the bound is refused, and leaving makes room', async () => {
    const { control, backend } = await up();
    const { source } = endless();
    backend.onStream = (_, signal) => source(signal);
    const readers = Array.from({ length: bounds.streams }, () => control.stream(params, never)[Symbol.asyncIterator]());
    await Promise.all(readers.map((reader) => reader.next()));
    await expect(collect(control.stream(params, never))).rejects.toMatchObject({ code: 'too_many' });
    await readers[0]!.return();
    const another = control.stream(params, never)[Symbol.asyncIterator]();
    await another.next();
    await Promise.all([another, ...readers].map((reader) => reader.return()));
  });

  it('has a window that keeps all of a connection within the bound, also after many came and went', async () => {
    const { control, backend, pair } = await up();
    const { source } = endless();
    backend.onStream = (_, signal) => source(signal);
    for (let round = 0; round < 3; round++) {
      pair.control.sent.length = 0;
      const readers = Array.from({ length: bounds.streams }, () =>
        control.stream(params, never)[Symbol.asyncIterator](),
      );
      await Promise.all(readers.map((reader) => reader.next()));
      const windows = pair.control.messages.filter((it) => it.type === 'stream.open').map((it) => Number(it['credit']));
      expect(windows).toHaveLength(bounds.streams);
      expect(windows[0]).toBe(bounds.windowBytes);
      expect(Math.min(...windows)).toBe(bounds.smallWindowBytes);
      expect(windows.reduce((sum, it) => sum + it)).toBeLessThanOrEqual(bounds.streamBytes);
      await Promise.all(readers.map((reader) => reader.return()));
      await settle(100);
    }
  });

  it('whose sender exceeds its credit ends the session', async () => {
    const { control, backend, host } = await up();
    backend.onStream = () => bytesOf('x');
    const reader = control.stream(params, never)[Symbol.asyncIterator]();
    const first = reader.next();
    for (let n = 0; n < 9; n++)
      control.receive(encodeData({ stream: 1, end: false, payload: new Uint8Array(32 * 1024) }));
    expect(host.ends).toEqual(['Sent more than it was granted']);
    await first;
    await reader.return();
  });

  it('in frames of a byte each costs little more than the bytes', async () => {
    const { control, backend } = await up();
    backend.onStream = () => bytesOf('x');
    const reader = control.stream(params, never)[Symbol.asyncIterator]();
    const first = reader.next();
    for (let n = 0; n < 100_000; n++) control.receive(encodeData({ stream: 1, end: false, payload: Buffer.from('y') }));
    let chunks = 0;
    for (let it = await first; it.done !== true && chunks < 1000; it = await reader.next()) {
      chunks++;
      if (Buffer.from(it.value).includes('x')) break;
    }
    expect(chunks).toBeLessThan(200);
    await reader.return();
  });

  it('that only one side knows is reset by the exchange of live streams', async () => {
    const { control, backend, clock, agent } = await up();
    const { state, source } = endless();
    backend.onStream = (_, signal) => source(signal);
    const reader = control.stream(params, never)[Symbol.asyncIterator]();
    await reader.next();
    // The agent forgets it, as if it had been stopped.
    agent.receive(encodeMessage({ type: 'stream.end', stream: 1 }));
    const drained = (async () => {
      for (let it = await reader.next(); it.done !== true; it = await reader.next());
    })();
    const outcome = expect(drained).rejects.toMatchObject({ code: 'away' });
    await clock.advance(95_000);
    await outcome;
    expect(state.ended).toBe(true);
  });

  it('that the reader does not know is stopped by the exchange of live streams', async () => {
    const { backend, clock, agent } = await up();
    const { state, source } = endless();
    backend.onStream = (_, signal) => source(signal);
    agent.receive(encodeMessage({ type: 'stream.open', stream: 77, params, credit: 1000 }));
    await clock.advance(95_000);
    expect(state.ended).toBe(true);
  });
});

describe('a stream of log lines', () => {
  const line = (seq: number): LogChunk['lines'][number] => ({
    seq,
    timestamp: '2030-01-01T00:00:00.000Z',
    stream: 'stdout',
    level: 'info',
    message: `line ${seq} äöü\n\t"x"`,
    instance_id: 'i',
  });

  it('is the same at its end, however its bytes are cut', async () => {
    const chunks: LogChunk[] = [
      { lines: [line(1), line(2)] },
      { lines: [], dropped: 3 },
      { lines: [line(6)], end: true },
    ];
    const bytes = Buffer.concat(chunks.map(encodeLogChunk));
    for (const size of [1, 2, 7, 100, bytes.length]) {
      const parts = Array.from({ length: Math.ceil(bytes.length / size) }, (_, n) =>
        bytes.subarray(n * size, (n + 1) * size),
      );
      const read: LogChunk[] = [];
      for await (const chunk of decodeLogChunks(bytesOf(...parts))) read.push(chunk);
      expect(read).toEqual(chunks);
    }
  });

  it.each([
    ['is no JSON', '{\n'],
    ['is no chunk', '{"lines":[{"seq":"1"}]}\n'],
    ['ends within a chunk', '{"lines":[]}'],
    ['has a chunk without end', 'x'.repeat(maxLogChunkBytes + 1)],
  ])('fails if it %s', async (_, text) => {
    const read = async (): Promise<void> => {
      for await (const _chunk of decodeLogChunks(bytesOf(text)));
    };
    await expect(read()).rejects.toMatchObject({ code: 'malformed' });
  });
});

describe('a reader', () => {
  it.each([1, 100, 30_000, 32_000, 40_000])(
    'keeps no buffer of the socket for a part of it: %i bytes',
    async (bytes) => {
      const buffer = new ArrayBuffer(64 * 1024);
      const payload = new Uint8Array(buffer, 5, bytes).fill(7);
      const reader = new StreamReader(bounds.windowBytes, { credit: () => undefined, over: () => undefined });
      reader.take({ payload, end: false });
      const { value } = await reader.next();
      expect(value).toEqual(payload);
      expect(value?.buffer.byteLength).toBeLessThanOrEqual(2 * bytes);
    },
  );
});
