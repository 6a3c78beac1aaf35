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

const away = { ...one, id: 'another-server', name: 'venus', agent_status: 'disconnected' };

const answered = (data: unknown) => ({ success: true, data, meta: { next_cursor: null } });

/**
 * Shows a server that has workloads: it is deleted only with force, and its agent stays on the machine. The agent of the
 * other server is away: its deletion is answered once it was asked for.
 */
const server = createServer((request, response) => {
  const url = new URL(request.url ?? '', 'http://localhost');
  const answer = (status: number, body: unknown): void => {
    response.writeHead(status, { 'content-type': 'application/json' });
    response.end(JSON.stringify(body));
  };
  const { code, message, details } = needsForce('The server has workloads (1 application)');
  if (url.pathname.endsWith('/notifications')) answer(200, answered([about('another'), about('a-server')]));
  else if (url.pathname.endsWith('/servers')) answer(200, answered([one, away]));
  else if (url.pathname.endsWith(`/${away.id}`)) ofAway(request.method, answer);
  else if (request.method !== 'DELETE') answer(404, { success: false, error: { code: 'NOT_FOUND', message: 'Gone' } });
  else if (url.searchParams.get('force') === 'true') answer(200, answered(null));
  else answer(409, { success: false, error: { code, message, details } });
});

let deletion: (() => void) | undefined;

/** The deletion is answered when the server is read, which is gone after that. */
function ofAway(method: string | undefined, answer: (status: number, body: unknown) => void): void {
  if (method === 'DELETE') deletion = () => answer(200, answered(null));
  else if (deletion === undefined) answer(404, { success: false, error: { code: 'NOT_FOUND', message: 'Gone' } });
  else {
    answer(200, answered(away));
    deletion();
    deletion = undefined;
  }
}

let cli: CommandLine;
beforeAll(async () => {
  cli = await CommandLine.open();
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
});
afterAll(async () => {
  server.close();
  await cli[Symbol.asyncDispose]();
});

function deleted(name: string, ...more: string[]): Promise<Printed> {
  const { port } = server.address() as AddressInfo; // it listens on TCP
  const env = { SETPOINT_URL: `http://127.0.0.1:${port}`, SETPOINT_TOKEN: 'any' };
  return cli.run(['delete', 'server', name, '--yes', ...more], '', env);
}

it('the command that deletes names its own option where the API asks for force=true', async () => {
  const { err, code } = await deleted('mars');
  expect({ err, code }).toEqual({
    err: 'The server has workloads (1 application): delete them or repeat the command with --force\n',
    code: 1,
  });
});

it('the command that deletes a server shows what its agent left, and what removes that', async () => {
  expect(await deleted('mars', '--force')).toEqual({
    code: 0,
    out: 'server mars is deleted\nIts agent did not remove itself: run there the command of a-server\n',
    err: '',
  });
});

it('the command that deletes a server whose agent is away says what it waits for', async () => {
  expect(await deleted('venus')).toEqual({
    code: 0,
    out: 'server venus is deleted\n',
    err: expect.stringMatching(/^… Waits for server venus, as its agent is not connected: /),
  });
});
