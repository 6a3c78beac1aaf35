import type { WebSocket } from 'ws';
import { z } from 'zod';
import { start } from '../../agent/machine/process.ts';
import { maxDataBytes } from '../../agent-protocol/terminal-stream.ts';
import { systemClock } from '../../time/clock.ts';
import type { Client } from '../client.ts';
import { findObject } from '../objects.ts';

const Made = z.object({ sessionId: z.string() });
const Frame = z.discriminatedUnion('type', [
  z.object({ type: z.literal('exit'), code: z.int().nullable() }),
  z.object({ type: z.literal('error'), message: z.string() }),
  z.object({ type: z.literal('end'), reason: z.string() }),
]);

/** Input that may wait for the control plane before the terminal is not read any more. */
const waitingBytes = 256 * 1024;
/** Columns or rows of a terminal without a size. */
const usual = { cols: 80, rows: 24 };
const endOfInput = 4; // Ctrl-D
const newline = 10;
/** Pauses between two ends of the input: each is twice as long as the one before. */
const pauses = { firstMs: 250, mostMs: 5000 } as const;
const sttyMs = 2000;

/**
 * Runs a shell, or a command, on a terminal in an instance of an application: the terminal of this process in raw mode.
 * The process then exits with the code of the shell.
 */
export async function exec(
  client: Client,
  name: string,
  command: readonly string[],
  options: { project?: string; instance?: string; shell?: string },
  signal: AbortSignal,
): Promise<void> {
  const app = await findObject(client, 'applications', name, options.project);
  const body = {
    ...(command.length > 0 && { command }),
    ...(options.shell !== undefined && { shell: options.shell }),
    ...(options.instance !== undefined && { instance_id: options.instance }),
  };
  await openTerminal(client, `/api/v1/applications/${app.id}/terminal`, body, signal);
}

/** Runs a login shell of a server's agent on a terminal, as {@link exec} does in an instance. */
export async function shell(
  client: Client,
  name: string,
  options: { shell?: string },
  signal: AbortSignal,
): Promise<void> {
  const server = await findObject(client, 'servers', name);
  const body = options.shell === undefined ? {} : { shell: options.shell };
  await openTerminal(client, `/api/v1/servers/${server.id}/terminal`, body, signal);
}

/** Makes a terminal and joins it with that of this process until it ends. @throws Error if it ends without a code */
export async function openTerminal(client: Client, path: string, body: object, signal: AbortSignal): Promise<void> {
  const made = await client.request('POST', path, { ...body, ...sizeHere() });
  const socket = await client.socket(`/ws/terminal/${Made.parse(made).sessionId}`, { output: 'binary' });
  using _ = joined(socket, !('command' in body), signal);
  const ending = endOf(socket);
  ending.catch(() => undefined); // awaited below
  await outputAsItComes();
  socket.resume();
  const end = await ending;
  if (end.type === 'exit') process.exitCode = end.code ?? 1;
  else throw new Error(end.type === 'error' ? end.message : `The terminal ended: ${end.reason}`);
}

/** Resolves with what ended the terminal. Output goes to standard output meanwhile, once the socket is resumed. */
function endOf(socket: WebSocket): Promise<z.infer<typeof Frame>> {
  return new Promise((resolve, reject) => {
    let end: z.infer<typeof Frame> | undefined;
    socket.on('message', (data: Buffer, isBinary) => {
      if (isBinary) {
        if (!process.stdout.write(data) && process.stdout.writable) {
          socket.pause();
          process.stdout.once('drain', () => socket.resume());
        }
        return;
      }
      const frame = Frame.safeParse(JSON.parse(data.toString()));
      if (frame.success) end ??= frame.data;
    });
    socket.on('error', reject);
    socket.on('close', (code) => resolve(end ?? { type: 'end', reason: `the connection was lost (${code})` }));
  });
}

/** Joins this process's terminal with the socket, until it is disposed of. `toShell`: a shell reads the input. */
function joined(socket: WebSocket, toShell: boolean, signal: AbortSignal): Disposable {
  const { stdin, stdout } = process;
  const isTerminal = stdin.isTTY;
  let last: number | undefined;
  const ending = new DisposableStack();
  const sent = (): void => {
    if (socket.bufferedAmount <= waitingBytes) stdin.resume();
  };
  const type = (data: Buffer): void => {
    last = data.at(-1) ?? last;
    for (let at = 0; at < data.length; at += maxDataBytes) socket.send(data.subarray(at, at + maxDataBytes), sent);
    if (socket.bufferedAmount > waitingBytes) stdin.pause();
  };
  const over = (): void => {
    // a shell that edits its lines ends only at the begin of one
    if (toShell && last !== undefined && last !== newline) type(Buffer.of(newline));
    ending.use(endsInput(socket));
  };
  const resized = (): void => socket.send(JSON.stringify({ type: 'resize', ...sizeHere() }));
  const leave = (): void => {
    // the other side closes, too, and that is not read while it is paused
    socket.resume();
    socket.close();
  };
  if (isTerminal) stdin.setRawMode(true);
  stdin.on('data', type);
  stdin.once('end', over);
  stdout.on('resize', resized);
  signal.addEventListener('abort', leave, { once: true });
  return {
    [Symbol.dispose]() {
      stdin.off('data', type);
      stdin.off('end', over);
      stdout.off('resize', resized);
      signal.removeEventListener('abort', leave);
      if (isTerminal) stdin.setRawMode(false);
      stdin.pause();
      ending.dispose();
      socket.terminate();
    },
  };
}

/**
 * Ends the input of the terminal there, until it is disposed of. At a terminal a Ctrl-D ends one read, and a shell that
 * begins to edit its lines drops those of before. So it is sent again and again: each program that reads finds the
 * end, as it would at a pipe.
 */
function endsInput(socket: WebSocket): Disposable {
  let pauseMs: number = pauses.firstMs;
  let cancel = (): void => undefined;
  const send = (): void => {
    socket.send(Uint8Array.of(endOfInput), () => undefined); // a lost connection is seen elsewhere
    cancel = systemClock.timer(pauseMs, send);
    pauseMs = Math.min(2 * pauseMs, pauses.mostMs);
  };
  send();
  return { [Symbol.dispose]: () => cancel() };
}

/**
 * Stops the terminal of this process from ending lines by CR LF: that of the programs did so, where they wanted it. The raw
 * mode of Node leaves that on, and its end restores all modes, also when the process exits. Without the program `stty`
 * lines end by CR CR LF, which looks the same on a screen.
 */
async function outputAsItComes(): Promise<void> {
  if (!process.stdin.isTTY) return;
  const stty = await start('stty', { args: ['-opost'], stdio: [0, 'ignore', 'pipe'] }).catch(() => undefined);
  if (stty === undefined) return;
  const cancel = systemClock.timer(sttyMs, () => process.kill(stty.pid, 'SIGKILL'));
  await stty.ended;
  cancel();
}

function sizeHere(): { cols: number; rows: number } {
  const { columns, rows } = process.stdout.isTTY ? process.stdout : { columns: usual.cols, rows: usual.rows };
  return { cols: cells(columns, usual.cols), rows: cells(rows, usual.rows) };
}

/** A terminal without a size reports 0. */
function cells(count: number, otherwise: number): number {
  return count > 0 ? Math.min(count, 1000) : otherwise;
}
