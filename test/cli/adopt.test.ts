import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
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

const shop = { id: crypto.randomUUID(), name: 'shop' };
const stage = { id: crypto.randomUUID(), name: 'stage', is_default: false };
const production = { id: crypto.randomUUID(), name: 'production', is_default: true };
/** Where something is called web already. */
const destination = {
  project: 'shop',
  environment: 'production',
  applications: new Map([['web', 'w1']]),
  volumes: new Map(),
};
const taken = done({
  ...nothing,
  truncated: false,
  taken: [
    { kind: 'volume', name: 'rows', id: 'v1', deployment_id: null },
    { kind: 'database', name: 'db', id: 'a1', deployment_id: 'd1' },
  ],
  remaining: ['On the server: docker stop db\u001b[2J', 'setpoint deploy web'],
});
/** The answers by path. */
const answers: Record<string, unknown> = {
  '/servers': done(['one', 'two', 'three', 'four'].map((name) => ({ id: name, name }))),
  '/projects': done([shop]),
  [`/projects/${shop.id}/environments`]: done([stage, production]),
  '/servers/one/adopt': done({ ...adoptionOf(found, ground), truncated: true }),
  '/servers/four/adopt': done({ ...adoptionOf(found, { ...ground, place: destination }), truncated: false }),
  '/servers/two/adopt': done({ ...nothing, truncated: false }),
  '/servers/three/adopt': done({ ...adoptionOf(onlyOne, ground), truncated: false }),
};
/** Bodies of the requests for plans. */
const asked: unknown[] = [];

const server = createServer((request, response) => {
  void text(request).then((sent) => {
    const { pathname } = new URL(request.url ?? '', 'http://localhost');
    const isTaking = sent.includes('"take"');
    if (pathname.endsWith('/adopt')) asked.push(JSON.parse(sent));
    const body = isTaking ? taken : answers[pathname.replace('/default/api/v1', '')];
    response.writeHead(body === undefined ? 404 : 200, { 'content-type': 'application/json' });
    response.end(JSON.stringify(body ?? { success: false, error: { code: 'NOT_FOUND', message: pathname } }));
  });
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
  expect(out).toContain('\n\n--project PROJECT --take NAME… --deploy takes entries over');
  expect(out).toContain(
    '\napplication agent: not possible as it is\n  engine_socket: It controls the container engine',
  );
  expect(out).toMatch(/\napplication web: possible, with a stop\n {2}port_taken: .*\n {2}note, port_bound: .*\n/);
  expect(out).toContain('\n  variables: TOKEN, LOG_LEVEL\n  1. setpoint adopt one ');
});

it('prints what setpoint apply takes, with what is to be written into it', async () => {
  asked.length = 0;
  const { code, out, err } = await adopt('one', '--manifests', '--project', 'shop');
  expect(asked).toEqual([{ project_id: shop.id, environment_id: production.id }]);
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

it('declares nothing that setpoint apply would change in place of creating it', async () => {
  const { code, out, err } = await adopt('four', '--manifests', '--project', 'shop');
  expect([code, err]).toEqual([
    0,
    'Left out, since setpoint apply would change what has these names or volumes already: web\n',
  ]);
  expect(parseApplications(out).map(({ metadata }) => metadata.name)).toEqual(['db', expect.stringContaining('evil')]);
  expect(out).toMatch(/^# web is left out: Environment production has an application web \(w1\) already: if /m);
});

it('names the project and the environment that it is asked for, in place of words to fill in', async () => {
  asked.length = 0;
  const { code, out, err } = await adopt('four', '--project', 'shop', '--environment', 'stage');
  expect([code, err]).toEqual([0, '']);
  expect(asked).toEqual([{ project_id: shop.id, environment_id: stage.id }]);
  expect(out).toContain('\n\n--project shop --take NAME… --deploy takes entries over');
  expect(out).not.toContain('PROJECT');
  const staged = await adopt('one', '--manifests', '--project', 'shop', '--environment', 'stage');
  expect(parseApplications(staged.out)[0]?.spec).toMatchObject({ project: 'shop', environment: 'stage' });
});

it('prints the whole answer for programs', async () => {
  const { out } = await adopt('one', '-o', 'json');
  expect(JSON.parse(out)).toEqual({ ...adoptionOf(found, ground), truncated: true });
});

it('says where there is nothing, or nothing that can be declared', async () => {
  expect(await adopt('two')).toEqual({ code: 0, out: 'Nothing runs on the server that is not of Setpoint\n', err: '' });
  const { code, err } = await adopt('three', '--manifests', '--project', 'shop');
  expect([code, err]).toEqual([1, expect.stringContaining('Nothing on the server can become an application')]);
});

it('takes over what is named, and prints what was made and what is left to do, in order', async () => {
  asked.length = 0;
  const place = ['--project', 'shop', '--environment', 'stage'];
  const { code, out, err } = await adopt('one', '--take', 'db', 'web', '--deploy', ...place);
  expect([code, err]).toEqual([0, '']);
  expect(asked).toEqual([{ project_id: shop.id, environment_id: stage.id, take: ['db', 'web'], deploy: true }]);
  const lines = out.split('\n');
  expect(lines).toEqual([
    expect.stringMatching(/^KIND +NAME +ID +DEPLOYMENT$/),
    expect.stringMatching(/^volume +rows +v1 *$/),
    expect.stringMatching(/^database +db +a1 +d1$/),
    '',
    'Left to do by hand, in this order:',
    expect.stringMatching(/^ {2}1\. On the server: docker stop db/),
    '  2. setpoint deploy web',
    '',
  ]);
  expect(out).not.toContain('\u001b');
  const json = await adopt('one', '--take', 'db', '--project', 'shop', '-o', 'json');
  expect(JSON.parse(json.out)).toMatchObject({ taken: [{ name: 'rows' }, { name: 'db' }] });
  expect(asked.at(-1)).toEqual({
    project_id: shop.id,
    environment_id: production.id,
    take: ['db'],
    deploy: false,
  });
});

it('says what is missing to take something over, before it asks for it', async () => {
  asked.length = 0;
  const cases: [string[], string][] = [
    [['--take', 'db'], '--take needs --project'],
    [['--manifests'], '--manifests needs --project'],
    [['--environment', 'stage'], '--environment needs --project'],
    [['--deploy'], '--deploy is for what is taken over'],
    [['--take', 'db', '--manifests', '--project', 'shop'], 'cannot be used with'],
  ];
  for (const [argv, message] of cases) {
    const { code, err } = await adopt('one', ...argv);
    expect([code, err], argv.join(' ')).toEqual([1, expect.stringContaining(message)]);
  }
  expect(asked).toEqual([]);
});
