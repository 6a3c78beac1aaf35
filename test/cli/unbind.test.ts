import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, beforeAll, expect, it, vi } from 'vitest';
import { CommandLine } from '../harness/command-line.ts';

// each command is a process
vi.setConfig({ testTimeout: 60_000 });

const lost =
  'The volume was removed from its server, and its data with it. Put it back from a copy, or delete it and create another one';
const at = '2026-01-01T00:00:00.000Z';
const condition = (status: string, reason: string, message: string) => ({
  type: 'Ready',
  status,
  reason,
  message,
  last_transition_at: at,
});
const volumes = [
  { name: 'whole', status: 'bound', conditions: [condition('true', 'Bound', 'It is on its server')] },
  { name: 'away', status: 'bound', conditions: [condition('unknown', 'ServerAway', 'Its server does not answer')] },
  { name: 'lost', status: 'error', conditions: [condition('false', 'DataLost', lost)] },
].map((it) => ({ ...it, id: `${it.name}-id`, created_at: at }));

/** Shows these volumes, and unbinds each one. */
const server = createServer((request, response) => {
  const { pathname } = new URL(request.url ?? '', 'http://localhost');
  const unbound = volumes.find(({ id }) => pathname.endsWith(`/volumes/${id}/unbind`));
  const data = unbound ?? volumes;
  response.writeHead(200, { 'content-type': 'application/json' });
  response.end(JSON.stringify({ success: true, data, meta: { next_cursor: null } }));
});

let cli: CommandLine;
beforeAll(async () => {
  cli = await CommandLine.open();
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
});
afterAll(async () => {
  server.close();
  await cli[Symbol.asyncDispose]();
});

it.each([
  ['whole', 'its data stays'],
  ['away', 'its data stays'],
  ['lost', `it is in error: ${lost}`],
])('the command that unbinds a volume that is %s says: %s', async (name, words) => {
  const { port } = server.address() as AddressInfo; // it listens on TCP
  const env = { SETPOINT_URL: `http://127.0.0.1:${port}`, SETPOINT_TOKEN: 'any' };
  const { out, err, code } = await cli.run(['unbind', name], '', env);
  expect({ out, err, code }).toEqual({ out: `volume ${name} is mounted by nothing; ${words}\n`, err: '', code: 0 });
});
