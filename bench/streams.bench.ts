import { request } from 'node:http';
import type { Socket } from 'node:net';
import { z } from 'zod';
import { maxDataBytes } from '../agent-protocol/terminal-stream.ts';
import { engineCall, engineSocket } from '../test/harness/docker.ts';
import { instancesOf } from '../test/harness/engine.ts';
import { Installation } from '../test/harness/installation.ts';
import { freePort } from '../test/harness/program.ts';
import { ensureTestImages } from '../test/harness/test-image.ts';
import { until } from '../test/harness/until.ts';
import type { Bench } from './bench.ts';
import { percentile, timed } from './measure.ts';

const rounds = 5;
const blockBytes = 64 * 1024;
/** Bytes of one direction, of all streams together. */
const totalBytes = 32 * 1024 * 1024;
/** Input that may wait in the socket of the client. */
const waitingBytes = 256 * 1024;
const keys = 300;
const waitMs = 120_000;

/** A program on a raw terminal: what it writes is handed to `read`, and why it ended to `lost`. */
interface Pipe extends Disposable {
  read: (data: Buffer) => void;
  lost: (why: string) => void;
  /** Resolves when there is room for more. */
  write(data: Buffer): Promise<void>;
}

type OpenPipe = (script: string) => Promise<Pipe>;

const Created = z.object({ Id: z.string() });
const Made = z.object({ sessionId: z.string() });

export const bench: Bench = {
  id: 'P16',
  async run({ compareAll }) {
    const { http } = await ensureTestImages();
    await using town = await Installation.start({ store: 'sqlite' });
    const port = await freePort();
    const web = { exposed_port: port, healthcheck_path: '/healthz', env: { PORT: String(port) } };
    const { id } = await town.createApplication({ source_type: 'image', image_url: http, ...web });
    await town.deployment((await town.deploy(id)).id, 'succeeded');
    const [container] = await instancesOf(id);
    if (container === undefined) throw new Error('The application has no instance');
    const raw: OpenPipe = (script) => attach(container, script);
    const ours: OpenPipe = (script) => terminal(town, id, script);

    for (const streams of [1, 8]) {
      const many = streams === 1 ? '1 terminal' : `${streams} terminals`;
      await compareAll({
        figures: {
          out: { what: `output of ${many} in a container, at WebSockets; raw: exec at the engine`, unit: 'MB per s' },
          in: { what: `the same, input`, unit: 'MB per s' },
        },
        rounds,
        raw: () => rates(raw, streams),
        ours: () => rates(ours, streams),
      });
    }
    await compareAll({
      figures: {
        p50: { what: 'a key until its echo, p50; raw: exec at the engine', unit: 'ms' },
        p99: { what: 'the same, p99', unit: 'ms' },
      },
      rounds,
      raw: () => echoes(raw),
      ours: () => echoes(ours),
    });
  },
};

async function rates(open: OpenPipe, streams: number): Promise<{ out: number; in: number }> {
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
async function echoes(open: OpenPipe): Promise<{ p50: number; p99: number }> {
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

/** A terminal by the API, over control plane and agent. */
async function terminal(town: Installation, app: string, script: string): Promise<Pipe> {
  const body = { command: ['/bin/sh', '-c', script] };
  // A place is free only some time after a terminal has ended.
  const made = await until('a place for a terminal is free', async () =>
    Made.parse(await town.client.request('POST', `/api/v1/applications/${app}/terminal`, body)),
  );
  const socket = await town.client.socket(`/ws/terminal/${made.sessionId}`, { output: 'binary' });
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

/** The same program on the same kind of terminal, by a hijacked connection to the engine. */
async function attach(container: string, script: string): Promise<Pipe> {
  const streams = { AttachStdin: true, AttachStdout: true, AttachStderr: true, Tty: true };
  const made = await engineCall('POST', `/containers/${container}/exec`, {
    ...streams,
    Cmd: ['/bin/sh', '-c', script],
  });
  const opened = Promise.withResolvers<{ socket: Socket; head: Buffer }>();
  const headers = { host: 'engine', connection: 'Upgrade', upgrade: 'tcp', 'content-type': 'application/json' };
  const path = `/v1.41/exec/${Created.parse(made).Id}/start`;
  const asked = request({ socketPath: engineSocket, method: 'POST', path, headers });
  asked.on('upgrade', (_answer, socket, head) => opened.resolve({ socket: socket as Socket, head })); // it is one
  asked.on('error', opened.reject);
  asked.end(JSON.stringify({ Detach: false, Tty: true }));
  const { socket, head } = await opened.promise;
  // With a listener, the bytes would be emitted at once.
  if (head.length > 0) socket.unshift(head);
  const pipe: Pipe = {
    read: () => undefined,
    lost: () => undefined,
    write: async (data) => {
      if (!socket.write(data)) await new Promise((resolve) => socket.once('drain', resolve));
    },
    [Symbol.dispose]: () => socket.destroy(),
  };
  socket.on('error', () => undefined); // `close` follows
  socket.on('close', () => pipe.lost('the engine closed the connection'));
  socket.on('data', (data: Buffer) => pipe.read(data));
  return pipe;
}
