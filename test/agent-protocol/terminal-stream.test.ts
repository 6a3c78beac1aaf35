import { describe, expect, it } from 'vitest';
import { maxPayloadBytes } from '../../agent-protocol/data-frame.ts';
import {
  decodeTerminalInput,
  decodeTerminalOutput,
  encodeTerminal,
  maxDataBytes,
} from '../../agent-protocol/terminal-stream.ts';
import type { TerminalInput, TerminalOutput } from '../../agent-protocol/terminal-stream.ts';

async function* pieces(bytes: Uint8Array, size: number): AsyncGenerator<Uint8Array> {
  for (let at = 0; at < bytes.length; at += size) yield bytes.subarray(at, at + size);
}

/** All frames, with data that follows on data joined. */
async function all<T extends TerminalInput | TerminalOutput>(frames: AsyncIterable<T>): Promise<unknown[]> {
  const seen: unknown[] = [];
  let data = '';
  for await (const it of frames) {
    if (it.type === 'data') data += Buffer.from(it.data).toString('latin1');
    else {
      seen.push(data, it);
      data = '';
    }
  }
  return [...seen, data];
}

const every = Buffer.from(Array.from({ length: 256 }, (_, n) => n));

describe('the bytes of a terminal', () => {
  it('are the same at the other end, however they are cut', async () => {
    const input = Buffer.concat([
      encodeTerminal({ type: 'data', data: every }),
      encodeTerminal({ type: 'resize', cols: 300, rows: 2 }),
      encodeTerminal({ type: 'data', data: Buffer.alloc(0) }),
      encodeTerminal({ type: 'data', data: Buffer.from('\u0003') }),
    ]);
    const output = Buffer.concat([
      encodeTerminal({ type: 'data', data: every }),
      encodeTerminal({ type: 'exit', code: 3 }),
    ]);
    for (const size of [1, 2, 4, 7, 100, 1000]) {
      expect(await all(decodeTerminalInput(pieces(input, size)))).toEqual([
        every.toString('latin1'),
        { type: 'resize', cols: 300, rows: 2 },
        '\u0003',
      ]);
      expect(await all(decodeTerminalOutput(pieces(output, size)))).toEqual([
        every.toString('latin1'),
        { type: 'exit', code: 3 },
        '',
      ]);
    }
  });

  it('go into one frame of the protocol as long as they are no longer than said', () => {
    const sizes = [maxDataBytes, maxDataBytes + 1].map(
      (bytes) => encodeTerminal({ type: 'data', data: Buffer.alloc(bytes) }).length,
    );
    expect(sizes).toEqual([maxPayloadBytes, maxPayloadBytes + 1]);
  });

  it('hand data on before its frame is complete', async () => {
    const bytes = encodeTerminal({ type: 'data', data: Buffer.alloc(10_000_000, 'x') });
    const first = await decodeTerminalOutput(pieces(bytes, 100)).next();
    expect(first.value).toMatchObject({ type: 'data' });
  });

  it.each([3, -1, 0, 255, undefined])('have the exit code %s', async (code) => {
    const bytes = encodeTerminal({ type: 'exit', code });
    expect(await all(decodeTerminalOutput(pieces(bytes, 3)))).toEqual(['', { type: 'exit', code }, '']);
  });

  it('of a type that is not known are skipped', async () => {
    const unknown = Buffer.from([9, 0, 0, 0, 2, 65, 66]);
    const known = encodeTerminal({ type: 'exit', code: 1 });
    const bytes = Buffer.concat([unknown, known]);
    expect(await all(decodeTerminalOutput(pieces(bytes, 4)))).toEqual(['', { type: 'exit', code: 1 }, '']);
  });

  it.each([
    ['end within a header', Buffer.from([0, 0])],
    ['end within data', Buffer.from([0, 0, 0, 0, 9, 1])],
    ['have a frame of a size that no such frame has', Buffer.from([1, 1, 0, 0, 0])],
  ])('that %s are refused', async (_, bytes) => {
    await expect(all(decodeTerminalInput(pieces(bytes, 100)))).rejects.toMatchObject({ code: 'malformed' });
  });
});
