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

/** Shows one application, and a terminal in it that ends with its input. */
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
    if (data.length === 1 && data[0] === endOfInput) socket.send('{"type":"exit","code":0}', () => socket.close());
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

it('input goes in messages that the control plane passes on in one frame each', async () => {
  const { port } = server.address() as AddressInfo; // it listens on TCP
  const env = { SETPOINT_URL: `http://127.0.0.1:${port}`, SETPOINT_TOKEN: 'any' };
  const input = randomBytes(300_000).toString('base64');
  expect(await cli.run(['exec', 'web'], input, env)).toEqual({ code: 0, out: '', err: '' });
  expect(Buffer.concat(messages.slice(0, -1)).toString() === input).toBe(true);
  expect(Math.max(...messages.map((it) => it.length))).toBe(maxDataBytes);
});
