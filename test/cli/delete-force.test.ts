import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, beforeAll, expect, it, vi } from 'vitest';
import { needsForce } from '../../api/routes/resource-endpoints.ts';
import { CommandLine } from '../harness/command-line.ts';

// the command is a process
vi.setConfig({ testTimeout: 60_000 });

const one = { id: 'a-server', name: 'mars', created_at: '2026-01-01T00:00:00.000Z' };

/** Shows one server, which has workloads: it is deleted only with force. */
const server = createServer((request, response) => {
  const isRefused = request.method === 'DELETE';
  const { code, message, details } = needsForce('The server has workloads (1 application)');
  response.writeHead(isRefused ? 409 : 200, { 'content-type': 'application/json' });
  response.end(
    JSON.stringify(
      isRefused
        ? { success: false, error: { code, message, details } }
        : { success: true, data: [one], meta: { next_cursor: null } },
    ),
  );
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

it('the command that deletes names its own option where the API asks for force=true', async () => {
  const { port } = server.address() as AddressInfo; // it listens on TCP
  const env = { SETPOINT_URL: `http://127.0.0.1:${port}`, SETPOINT_TOKEN: 'any' };
  const { err, code } = await cli.run(['delete', 'server', 'mars', '--yes'], '', env);
  expect({ err, code }).toEqual({
    err: 'The server has workloads (1 application): delete them or repeat the command with --force\n',
    code: 1,
  });
});
