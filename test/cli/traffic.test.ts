import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, beforeAll, expect, it, vi } from 'vitest';
import { WebSocketServer } from 'ws';
import { CommandLine } from '../harness/command-line.ts';

// each command is a process
vi.setConfig({ testTimeout: 60_000 });

const counts = {
  requests: 12,
  rps: 0.2,
  status: { '1xx': 0, '2xx': 9, '3xx': 0, '4xx': 2, '5xx': 1 },
  latency_ms: { p50: 1.5, p95: 20, p99: null },
  bytes_in: 10,
  bytes_out: 2048,
  refused: { unavailable: 1, unauthorized: 0, body_too_large: 2 },
  aborted: 0,
  cut: 0,
};
const point = { timestamp: '2030-01-01T00:00:00.000Z', complete: false, ...counts };
const known = { available: true, message: null, points: [point], instances: [{ instance_id: 'i-1', ...counts }] };
const answers: Record<string, unknown> = {
  a: { ...known, total: { ...counts, complete: true } },
  b: { ...known, available: false, message: 'It has no domain', points: [], instances: [], total: null },
  c: { ...known, points: [], instances: [], total: null },
};
const list = ['shop', 'plain', 'fresh'].map((name, n) => ({ id: 'abc'[n], name }));

const server = createServer((request, response) => {
  const { pathname } = new URL(request.url ?? '', 'http://localhost');
  const id = /applications\/(\w)\/traffic$/.exec(pathname)?.[1];
  response.writeHead(200, { 'content-type': 'application/json' });
  response.end(
    JSON.stringify({ success: true, data: id === undefined ? list : answers[id], meta: { next_cursor: null } }),
  );
});
const sockets = new WebSocketServer({ server });
let cli: CommandLine;
let env: Record<string, string>;

beforeAll(async () => {
  sockets.on('connection', (socket) => {
    for (const frame of [{ type: 'ready' }, { type: 'unavailable', message: 'Not yet' }, { type: 'traffic', ...point }])
      socket.send(JSON.stringify(frame));
    socket.send(JSON.stringify({ type: 'end', reason: 'closed' }), () => socket.close(1000));
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo; // it listens on a port
  env = { SETPOINT_URL: `http://127.0.0.1:${port}`, SETPOINT_TOKEN: 'any' };
  cli = await CommandLine.open();
});
afterAll(async () => {
  await cli[Symbol.asyncDispose]();
  sockets.close();
  server.closeAllConnections();
  server.close();
  await once(server, 'close');
});

const run = (...args: string[]) => cli.run(['traffic', ...args], '', env);

it('shows the requests by steps and by instances, and what the figures do not say', async () => {
  const { code, out } = await run('shop');
  const cells = '12 +0\\.2 +0 +9 +0 +2 +1 +1\\.5 ms +20 ms +- +10 B +2\\.0 KiB';
  expect(out.split('\n')).toEqual([
    expect.stringMatching(/^TIME +REQUESTS +PER S +1XX +2XX +3XX +4XX +5XX +P50 +P95 +P99 +IN +OUT +NOTE$/),
    expect.stringMatching(
      new RegExp(`^2030-\\S+ +${cells} +some are missing, 1 without a ready instance, 2 with too long a body$`),
    ),
    '',
    expect.stringMatching(/^INSTANCE +REQUESTS/),
    expect.stringMatching(new RegExp(`^i-1 +${cells}$`)),
    expect.stringMatching(new RegExp(`^all +${cells} +1 without a ready instance, 2 with too long a body$`)),
    '',
  ]);
  expect(code).toBe(0);
});

it('says why there are none', async () => {
  expect((await run('plain')).out).toBe('It has no domain\n');
  expect((await run('fresh')).out).toMatch(/^Nothing is known of that time/);
});

it('follows them', async () => {
  const { out, err } = await run('shop', '--follow');
  expect(out).toMatch(/^TIME +REQUESTS[^\n]*\n2030-\S+ +12 [^\n]*\n$/);
  expect(err).toBe('Not yet\nThe stream ended: closed\n');
});
