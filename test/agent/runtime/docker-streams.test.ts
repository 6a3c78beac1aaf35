import fc from 'fast-check';
import { expect, test } from 'vitest';
import { frames } from '../../../agent/runtime/docker/frames.ts';
import { jsonLines } from '../../../agent/runtime/docker/json-lines.ts';
import { beforeLive, type RecordedChunk } from '../../../agent/runtime/docker/seam.ts';
import type { OutputChunk } from '../../../agent/runtime/runtime.ts';

const Stream = fc.constantFrom('stdout' as const, 'stderr' as const);
const Frame = fc.record({ stream: Stream, data: fc.uint8Array({ maxLength: 40 }) });

function encode(all: readonly OutputChunk[]): Buffer {
  return Buffer.concat(
    all.map(({ stream, data }) => {
      const header = Buffer.alloc(8);
      header[0] = stream === 'stdout' ? 1 : 2;
      header.writeUInt32BE(data.length, 4);
      return Buffer.concat([header, data]);
    }),
  );
}

async function* cut(bytes: Buffer, sizes: readonly number[]): AsyncGenerator<Buffer> {
  let at = 0;
  for (let n = 0; at < bytes.length; n++) {
    const size = sizes[n % sizes.length] ?? 1;
    yield bytes.subarray(at, at + size);
    at += size;
  }
}

test('frames come out as they went in, wherever the stream is cut', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(Frame, { maxLength: 12 }),
      fc.array(fc.integer({ min: 1, max: 20 }), { minLength: 1, maxLength: 5 }),
      async (sent, sizes) => {
        const got: OutputChunk[] = [];
        let open: OutputChunk | undefined;
        for await (const { stream, data, last } of frames(cut(encode(sent), sizes))) {
          open = { stream, data: Buffer.concat([open?.data ?? Buffer.alloc(0), data]) };
          if (last) got.push(open);
          if (last) open = undefined;
        }
        expect(got.map(plain)).toEqual(sent.map(plain));
        expect(open).toBeUndefined();
      },
    ),
  );
});

test('bytes that are no frames are refused', async () => {
  const reading = Array.fromAsync(frames(cut(Buffer.from('HTTP/1.1 200 OK'), [15])));
  await expect(reading).rejects.toThrow('does not define');
});

test('JSON values come out one by one, wherever the stream is cut', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(fc.dictionary(fc.string({ maxLength: 5 }), fc.string({ maxLength: 9 }), { maxKeys: 3 }), {
        maxLength: 8,
      }),
      fc.array(fc.integer({ min: 1, max: 20 }), { minLength: 1, maxLength: 5 }),
      async (sent, sizes) => {
        const bytes = Buffer.from(sent.map((value) => `${JSON.stringify(value)}\r\n`).join(''));
        expect(JSON.stringify(await Array.fromAsync(jsonLines(cut(bytes, sizes))))).toBe(JSON.stringify(sent));
      },
    ),
  );
});

test('record and live output join without gap and repetition', () => {
  fc.assert(
    fc.property(
      fc.array(fc.record({ stream: Stream, text: fc.string({ minLength: 1, maxLength: 6 }) }), { maxLength: 12 }),
      fc.nat(12),
      fc.nat(12),
      (written, a, b) => {
        // The number makes each line differ: equal lines in a row cannot be told apart.
        const all = written.map(({ stream, text }, n) => ({ stream, at: '', data: Buffer.from(`${n} ${text}\n`) }));
        const attachedAt = Math.min(a, all.length);
        const recordedTo = Math.max(attachedAt, Math.min(b, all.length));
        const live = all.slice(attachedAt);
        const joined = [...beforeLive(all.slice(0, recordedTo), live), ...live];
        for (const stream of ['stdout', 'stderr'] as const) {
          expect(textOf(joined, stream)).toBe(textOf(all, stream));
        }
      },
    ),
  );
});

test('live output that began with a recorded line replaces it', () => {
  const recorded: RecordedChunk[] = ['one\n', 'two\n', 'three\n'].map((text) => ({
    stream: 'stdout',
    at: '',
    data: Buffer.from(text),
  }));
  const live: OutputChunk[] = [{ stream: 'stdout', data: Buffer.from('two\nthree\nfo') }];
  expect(beforeLive(recorded, live)).toEqual(recorded.slice(0, 1));
});

function plain({ stream, data }: OutputChunk): { stream: string; data: string } {
  return { stream, data: Buffer.from(data).toString('hex') };
}

function textOf(chunks: readonly OutputChunk[], stream: OutputChunk['stream']): string {
  return Buffer.concat(chunks.filter((one) => one.stream === stream).map(({ data }) => data)).toString();
}
