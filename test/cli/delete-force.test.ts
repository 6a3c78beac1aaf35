import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, beforeAll, expect, it, vi } from 'vitest';
import { needsForce } from '../../api/routes/resource-endpoints.ts';
import { CommandLine } from '../harness/command-line.ts';
import type { Printed } from '../harness/command-line.ts';

// the command is a process
vi.setConfig({ testTimeout: 60_000 });

const one = { id: 'a-server', name: 'mars', created_at: '2026-01-01T00:00:00.000Z' };
const about = (id: string) => ({
  id: `about-${id}`,
  created_at: '2026-01-01T00:00:00.000Z',
  kind: 'server_agent_left',
  message: `Its agent did not remove itself: run there the command of ${id}`,
  resource: { kind: 'server', id, name: 'mars', project_id: null },
});

const answered = (data: unknown) => ({ success: true, data, meta: { next_cursor: null } });

/** Shows one server, which has workloads: it is deleted only with force, and its agent stays on the machine. */
const server = createServer((request, response) => {
  const url = new URL(request.url ?? '', 'http://localhost');
  const answer = (status: number, body: unknown): void => {
    response.writeHead(status, { 'content-type': 'application/json' });
    response.end(JSON.stringify(body));
  };
  const { code, message, details } = needsForce('The server has workloads (1 application)');
  if (url.pathname.endsWith('/notifications')) answer(200, answered([about('another'), about('a-server')]));
  else if (url.pathname.endsWith('/servers')) answer(200, answered([one]));
  else if (request.method !== 'DELETE') answer(404, { success: false, error: { code: 'NOT_FOUND', message: 'Gone' } });
  else if (url.searchParams.get('force') === 'true') answer(200, answered(null));
  else answer(409, { success: false, error: { code, message, details } });
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

function deleted(...more: string[]): Promise<Printed> {
  const { port } = server.address() as AddressInfo; // it listens on TCP
  const env = { SETPOINT_URL: `http://127.0.0.1:${port}`, SETPOINT_TOKEN: 'any' };
  return cli.run(['delete', 'server', 'mars', '--yes', ...more], '', env);
}

it('the command that deletes names its own option where the API asks for force=true', async () => {
  const { err, code } = await deleted();
  expect({ err, code }).toEqual({
    err: 'The server has workloads (1 application): delete them or repeat the command with --force\n',
    code: 1,
  });
});

it('the command that deletes a server shows what its agent left, and what removes that', async () => {
  expect(await deleted('--force')).toEqual({
    code: 0,
    out: 'server mars is deleted\nIts agent did not remove itself: run there the command of a-server\n',
    err: '',
  });
});
