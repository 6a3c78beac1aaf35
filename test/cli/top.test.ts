import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, beforeAll, expect, it, vi } from 'vitest';
import { CommandLine } from '../harness/command-line.ts';

// each command is a process
vi.setConfig({ testTimeout: 60_000 });

const mebibyte = 1024 ** 2;
const network = { rx_bps: 1536, tx_bps: 10 };
const usage = (percent: number, used: number) => ({
  cpu: { percent },
  memory: { used_bytes: used * mebibyte, limit_bytes: null },
  network,
  disk: { read_bps: 0, write_bps: null },
});
const machine = (percent: number) => ({
  cpu: { percent },
  memory: { used_bytes: 512 * mebibyte, total_bytes: 2048 * mebibyte, percent: 25 },
  disk: { used_bytes: null, total_bytes: null, percent: null },
  network,
});

const refused = (message: string) => ({ success: false, error: { code: 'X', message } });
const done = (data: unknown) => ({ success: true, data, meta: { next_cursor: null } });

/** The answers by path; of the server `one` the caller is an admin, of `three` not. */
const answers: Record<string, [status: number, body: unknown]> = {
  '/servers': [200, done(['one', 'two', 'three', 'four'].map((name) => ({ id: name, name })))],
  '/applications': [
    200,
    done([
      { id: 'a', name: 'quiet', server_id: 'one' },
      { id: 'b', name: 'busy', server_id: 'one' },
      { id: 'c', name: 'gone', server_id: 'one' },
      { id: 'd', name: 'away', server_id: 'two' },
      { id: 'e', name: 'other', server_id: 'three' },
    ]),
  ],
  '/servers/one/metrics': [
    200,
    done({
      points: [machine(99), machine(5)],
      workloads: [
        { workload_id: 'a', ...usage(1, 20) },
        { workload_id: 'b', ...usage(150.26, 2048), memory: { used_bytes: 1024 ** 3, limit_bytes: 2 * 1024 ** 3 } },
      ],
    }),
  ],
  '/servers/two/metrics': [503, refused('The agent is not connected')],
  '/servers/three/metrics': [200, done({ points: [{ ...machine(50), network: undefined }] })],
  '/servers/four/metrics': [409, refused('Upgrade the agent')],
  '/applications/e/metrics': [200, done({ points: [usage(7, 3)] })],
};

const server = createServer((request, response) => {
  const { pathname } = new URL(request.url ?? '', 'http://localhost');
  const [status, body] = answers[pathname.replace('/default/api/v1', '')] ?? [404, refused(`No ${pathname}`)];
  response.writeHead(status, { 'content-type': 'application/json' });
  response.end(JSON.stringify(body));
});
let cli: CommandLine;
let env: Record<string, string>;

beforeAll(async () => {
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo; // it listens on a port
  env = { SETPOINT_URL: `http://127.0.0.1:${port}`, SETPOINT_TOKEN: 'any' };
  cli = await CommandLine.open();
});
afterAll(async () => {
  await cli[Symbol.asyncDispose]();
  server.closeAllConnections();
  server.close();
  await once(server, 'close');
});

const top = async (what: string) => cli.run(['top', what], '', env);

it('shows what servers use, the busiest first, and why of some nothing is known', async () => {
  const { code, out } = await top('servers');
  expect(out.split('\n')).toEqual([
    expect.stringMatching(/^NAME +CPU +MEMORY +DISK +RECEIVED +SENT +NOTE$/),
    expect.stringMatching(/^three +50\.0 % +512 MiB of 2\.0 GiB \(25 %\) +- +- +-$/),
    expect.stringMatching(/^one +5\.0 % +512 MiB of 2\.0 GiB \(25 %\) +- +1\.5 KiB\/s +10 B\/s$/),
    expect.stringMatching(/^two +- +- +- +- +- +agent away$/),
    expect.stringMatching(/^four +- +- +- +- +- +agent of an earlier release$/),
    '',
  ]);
  expect(code).toBe(0);
});

it('shows what applications use, also to users who see no workloads of servers', async () => {
  const { code, out } = await top('apps');
  expect(out.split('\n')).toEqual([
    expect.stringMatching(/^NAME +CPU +MEMORY +RECEIVED +SENT +READ +WRITTEN +NOTE$/),
    expect.stringMatching(/^busy +150\.3 % +1\.0 GiB of 2\.0 GiB +1\.5 KiB\/s +10 B\/s +0 B\/s +-$/),
    expect.stringMatching(/^other +7\.0 % +3\.0 MiB +1\.5 KiB\/s/),
    expect.stringMatching(/^quiet +1\.0 % +20\.0 MiB +1\.5 KiB\/s/),
    expect.stringMatching(/^gone +- +- +- +- +- +-$/),
    expect.stringMatching(/^away +- +- +- +- +- +- +agent away$/),
    '',
  ]);
  expect(code).toBe(0);
});

it('refuses other kinds', async () => {
  expect((await top('projects')).err).toContain('Metrics are of servers or applications: got projects');
});
