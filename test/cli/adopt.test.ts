import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, beforeAll, expect, it, vi } from 'vitest';
import { adoptionOf } from '../../api/adoption/plan.ts';
import { parseApplications } from '../../manifests/application.ts';
import { CommandLine } from '../harness/command-line.ts';
import { composed, imageOf, mounted, published, surveyed, surveyOf, volumeOf } from '../harness/surveyed.ts';

// each command is a process
vi.setConfig({ testTimeout: 60_000 });

const found = surveyOf(
  [
    surveyed('web', { env: ['TOKEN', 'LOG_LEVEL'], command: ['serve', '--name', 'a b'], ports: [published(80, 80)] }),
    composed('shop', 'db', { image: imageOf('postgres:17'), mounts: [mounted('shop_data', '/data')] }),
    surveyed('agent', { mounts: [{ type: 'bind', source: '/var/run/docker.sock', path: '/s', read_only: false }] }),
    surveyed('evil\u001b[2J', { networks: ['bridge\nx'] }),
  ],
  [volumeOf('shop_data', { project: 'shop' })],
);
const place = { id: crypto.randomUUID(), name: 'one', opensPorts: true };
const ground = { server: place, isAllowedRegistry: () => true };
const nothing = { found: [], volumes: [], plan: [] };
const onlyOne = surveyOf([surveyed('x', { restart: 'no', state: 'exited' })]);
const done = (data: unknown) => ({ success: true, data, meta: { next_cursor: null } });

/** The answers by path. */
const answers: Record<string, unknown> = {
  '/servers': done(['one', 'two', 'three'].map((name) => ({ id: name, name }))),
  '/servers/one/adopt': done({ ...adoptionOf(found, ground), truncated: true }),
  '/servers/two/adopt': done({ ...nothing, truncated: false }),
  '/servers/three/adopt': done({ ...adoptionOf(onlyOne, ground), truncated: false }),
};
const server = createServer((request, response) => {
  const { pathname } = new URL(request.url ?? '', 'http://localhost');
  const body = answers[pathname.replace('/default/api/v1', '')];
  response.writeHead(body === undefined ? 404 : 200, { 'content-type': 'application/json' });
  response.end(JSON.stringify(body ?? { success: false, error: { code: 'NOT_FOUND', message: pathname } }));
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

const adopt = (...argv: string[]) => cli.run(['adopt', ...argv], '', env);

it('shows the plan as a table, then why, what changes and what to do', async () => {
  const { code, out, err } = await adopt('one');
  expect([code, err]).toEqual([0, expect.stringContaining('There is more on the server than this shows')]);
  const [head, ...rows] = out.split('\n\n')[0]?.split('\n') ?? [];
  expect(head).toMatch(/^KIND +NAME +FROM +POSSIBLE +WHY$/);
  expect(rows).toEqual([
    expect.stringMatching(/^volume +data +shop_data \(compose shop\) +with_a_stop +volume_copied$/),
    expect.stringMatching(/^database +db +shop-db-1 \(compose shop\) +with_a_stop +volume_copied$/),
    expect.stringMatching(/^application +agent +agent +no +engine_socket$/),
    expect.stringMatching(/^application +evil\S+ +evil\S+ +yes$/),
    expect.stringMatching(/^application +web +web +with_a_stop +port_taken$/),
  ]);
  expect(out).not.toContain('\u001b');
  expect(out).toContain(
    '\napplication agent: not possible as it is\n  engine_socket: It controls the container engine',
  );
  expect(out).toMatch(/\napplication web: possible, with a stop\n {2}port_taken: .*\n {2}note, port_bound: .*\n/);
  expect(out).toContain('\n  variables: TOKEN, LOG_LEVEL\n  1. setpoint adopt one ');
});

it('prints what setpoint apply takes, with what is to be written into it', async () => {
  const { code, out, err } = await adopt('one', '--manifests', '--project', 'shop');
  expect([code, err]).toEqual([0, expect.stringContaining('There is more on the server')]);
  const declared = parseApplications(out);
  expect(declared.map(({ metadata }) => metadata.name)).toEqual(['db', expect.stringContaining('evil'), 'web']);
  expect(declared[2]?.spec).toMatchObject({
    project: 'shop',
    environment: 'production',
    server: 'one',
    source_type: 'image',
    image_url: expect.stringMatching(/^nginx:1\.27@sha256:/),
    exposed_port: 80,
    start_command: "serve --name 'a b'",
  });
  expect(declared[2]?.spec.env).toBeUndefined();
  expect(out).toContain("  # env:\n  #   TOKEN: ''\n  #   LOG_LEVEL: ''");
  expect(out).toContain('# Bind volume data at /data before it is deployed\n');
  expect(out).toMatch(/^# agent is left out: It controls the container engine/);
  const filled = parseApplications(
    out.replaceAll(/^ {2}# {0,3}(env:| TOKEN:| LOG_LEVEL:)/gm, (line) => line.replace('# ', '')),
  );
  expect(filled[2]?.spec.env).toEqual({ TOKEN: '', LOG_LEVEL: '' });
});

it('prints the whole answer for programs', async () => {
  const { out } = await adopt('one', '-o', 'json');
  expect(JSON.parse(out)).toEqual({ ...adoptionOf(found, ground), truncated: true });
});

it('says where there is nothing, or nothing that can be declared', async () => {
  expect(await adopt('two')).toEqual({ code: 0, out: 'Nothing runs on the server that is not of Setpoint\n', err: '' });
  const { code, err } = await adopt('three', '--manifests');
  expect([code, err]).toEqual([1, expect.stringContaining('Nothing on the server can become an application')]);
});
