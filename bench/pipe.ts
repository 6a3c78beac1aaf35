import type { WebSocket } from 'ws';
import { maxDataBytes } from '../agent-protocol/terminal-stream.ts';
import { percentile, timed } from './measure.ts';

const blockBytes = 64 * 1024;
/** Bytes of one direction, of all streams together. */
const totalBytes = 32 * 1024 * 1024;
/** Input that may wait in the socket of the client. */
const waitingBytes = 256 * 1024;
const keys = 300;
const waitMs = 120_000;

/** A program on a raw terminal: what it writes is handed to `read`, and why it ended to `lost`. */
export interface Pipe extends Disposable {
  read: (data: Buffer) => void;
  lost: (why: string) => void;
  /** Resolves when there is room for more. */
  write(data: Buffer): Promise<void>;
}

export type OpenPipe = (script: string) => Promise<Pipe>;

/** Megabytes per second of output and of input, over so many terminals at once. */
export async function rates(open: OpenPipe, streams: number): Promise<{ out: number; in: number }> {
  const blocks = totalBytes / blockBytes / streams;
  return { out: await rateOf(open, streams, blocks, output), in: await rateOf(open, streams, blocks, input) };
}

/** Megabytes per second of all streams together, from the start of the first to the end of the last. */
async function rateOf(
  open: OpenPipe,
  streams: number,
  blocks: number,
  pass: (pipe: Pipe, blocks: number) => Promise<void>,
): Promise<number> {
  using pipes = new DisposableStack();
  const script = pass === output ? `dd if=/dev/zero bs=${blockBytes} count=${blocks}` : reader(blocks * blockBytes);
  const opened = await Promise.all(
    Array.from({ length: streams }, async () => pipes.use(await ready(open, `read go; ${script}`))),
  );
  const ms = await timed(() => Promise.all(opened.map((pipe) => pass(pipe, blocks))));
  return totalBytes / 1000 / ms;
}

const reader = (bytes: number): string =>
  `dd of=/dev/null bs=${blockBytes} iflag=fullblock,count_bytes count=${bytes}; echo done`;

async function output(pipe: Pipe, blocks: number): Promise<void> {
  const came = arrived(pipe, blocks * blockBytes);
  await pipe.write(Buffer.from('\n'));
  await came;
}

async function input(pipe: Pipe, blocks: number): Promise<void> {
  const came = arrived(pipe, 'done\n'.length);
  await pipe.write(Buffer.from('\n'));
  // As much in one message as `setpoint exec` sends.
  const message = Buffer.alloc(maxDataBytes, 'x');
  for (let left = blocks * blockBytes; left > 0; left -= maxDataBytes) await pipe.write(message.subarray(0, left));
  await came;
}

/** Times of single keys, each of which is typed when the one before has come back. */
export async function echoes(open: OpenPipe): Promise<{ p50: number; p99: number }> {
  using pipe = await ready(open, 'exec cat');
  const times: number[] = [];
  for (let n = 0; n < keys; n += 1) {
    const came = arrived(pipe, 1);
    times.push(
      await timed(async () => {
        await pipe.write(Buffer.from('x'));
        await came;
      }),
    );
  }
  return { p50: percentile(times, 0.5), p99: percentile(times, 0.99) };
}

/** Opens a raw terminal without an echo of its own, in which the script has begun. */
async function ready(open: OpenPipe, script: string): Promise<Pipe> {
  const pipe = await open(`stty raw -echo; echo up; exec 2>/dev/null; ${script}`);
  await arrived(pipe, 'up\n'.length);
  return pipe;
}

/** Resolves when this number of bytes has come from now on. */
function arrived(pipe: Pipe, bytes: number): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  const timer = setTimeout(() => reject(new Error(`Of ${bytes} bytes ${left} did not come`)), waitMs);
  let left = bytes;
  pipe.read = (data) => {
    left -= data.length;
    if (left <= 0) resolve();
  };
  pipe.lost = (why) => reject(new Error(`Of ${bytes} bytes ${left} did not come: ${why}`));
  return promise.finally(() => clearTimeout(timer));
}

/** A terminal behind a socket of the API. */
export function socketPipe(socket: WebSocket): Pipe {
  const pipe: Pipe = {
    read: () => undefined,
    lost: () => undefined,
    write: (data) =>
      new Promise((resolve, reject) => {
        const sent = (error?: Error | null): void => (error ? reject(error) : resolve());
        if (socket.bufferedAmount > waitingBytes) socket.send(data, sent);
        else {
          socket.send(data);
          resolve();
        }
      }),
    [Symbol.dispose]: () => socket.terminate(),
  };
  socket.on('message', (data: Buffer, isBinary) => {
    if (isBinary) pipe.read(data);
    else if (/"type":"(error|end)"/.test(data.toString())) pipe.lost(data.toString());
  });
  socket.on('close', (code) => pipe.lost(`closed with ${code}`));
  socket.resume();
  return pipe;
}
