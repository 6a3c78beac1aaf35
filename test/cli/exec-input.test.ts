import { randomBytes } from 'node:crypto';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, beforeAll, expect, it, vi } from 'vitest';
import { WebSocketServer } from 'ws';
import { maxDataBytes } from '../../agent-protocol/terminal-stream.ts';
import { CommandLine } from '../harness/command-line.ts';

// each command is a process
vi.setConfig({ testTimeout: 60_000 });

const web = { id: 'web-id', name: 'web', created_at: '2026-01-01T00:00:00.000Z' };
const messages: Buffer[] = [];
const endOfInput = 4;
let dropped = 0;

/** Shows one application, and a terminal in it that ends with its input, once it has dropped as many ends as it is to. */
const server = createServer((request, response) => {
  const data = request.method === 'POST' ? { sessionId: 'one' } : [web];
  response.writeHead(200, { 'content-type': 'application/json' });
  response.end(JSON.stringify({ success: true, data, meta: { next_cursor: null } }));
});
const sockets = new WebSocketServer({ server });
sockets.on('connection', (socket) =>
  socket.on('message', (data: Buffer, isBinary) => {
    if (!isBinary) return;
    messages.push(data);
    if (data.length !== 1 || data[0] !== endOfInput) return;
    if (dropped > 0) dropped -= 1;
    else socket.send('{"type":"exit","code":0}', () => socket.close());
  }),
);

let cli: CommandLine;
beforeAll(async () => {
  cli = await CommandLine.open();
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
});
afterAll(async () => {
  sockets.close();
  server.close();
  await cli[Symbol.asyncDispose]();
});

/** Runs a command of the application with that input, and returns what its terminal got before the end, and the ends. */
async function got(argv: readonly string[], input: string): Promise<{ text: string; ends: number }> {
  messages.length = 0;
  const { port } = server.address() as AddressInfo; // it listens on TCP
  const env = { SETPOINT_URL: `http://127.0.0.1:${port}`, SETPOINT_TOKEN: 'any' };
  expect(await cli.run(['exec', 'web', ...argv], input, env)).toEqual({ code: 0, out: '', err: '' });
  const all = Buffer.concat(messages).toString();
  const end = all.indexOf('\u0004');
  return { text: all.slice(0, end), ends: all.length - end };
}

it('input goes in messages that the control plane passes on in one frame each', async () => {
  const input = `${randomBytes(300_000).toString('base64')}\n`;
  const { text } = await got([], input);
  expect(text === input).toBe(true);
  expect(Math.max(...messages.map((it) => it.length))).toBe(maxDataBytes);
});

it('the end of the input is sent again until the terminal ends', async () => {
  dropped = 2;
  const { text, ends } = await got([], 'date\n');
  expect(text).toBe('date\n');
  expect(ends).toBeGreaterThanOrEqual(3); // under load it is sent once more before the end arrives
});

it('a last line that does not end is ended for a shell, and not for a command', async () => {
  expect((await got([], 'date')).text).toBe('date\n');
  expect((await got(['--', 'cat'], 'date')).text).toBe('date');
  expect((await got([], '')).text).toBe('');
});
