import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { z } from 'zod';
import packageFile from '../../package.json' with { type: 'json' };
import { createClient } from '../../cli/client.ts';
import { freePort, Program } from '../harness/program.ts';
import { until } from '../harness/until.ts';

const root = new URL('../..', import.meta.url).href;
const preload = new URL('../harness/list-modules.ts', import.meta.url).pathname;
const Loaded = z.object({ urls: z.array(z.string()), builtins: z.array(z.string()) });

const programs = ['server', 'agent'] as const;
type Name = (typeof programs)[number];

/** What each program had loaded when it was idle: a module takes memory for as long as the program runs. */
const loaded = new Map<Name, z.infer<typeof Loaded>>();
let folder: string;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'setpoint-idle-'));
  const program = (name: Name, argv: readonly string[]): Program =>
    new Program([name, '--data', join(folder, name), ...argv], join(folder, `${name}.log`), {
      NODE_OPTIONS: `--import=${preload}`,
      LIST_MODULES_IN: join(folder, `${name}.json`),
    });
  const listen = `127.0.0.1:${await freePort()}`;
  const url = `http://${listen}`;
  const server = program('server', ['--listen', listen, '--setup-token', 'off']);
  server.start();
  await server.ready(url);

  const credentials = { email: 'owner@example.test', password: 'correct horse battery' };
  const visitor = createClient({ server: url, tenant: 'default' });
  const { token } = z
    .object({ token: z.string() })
    .parse(await visitor.request('POST', '/api/v1/auth/register', credentials));
  const client = createClient({ server: url, tenant: 'default', token });
  const made = await client.object('POST', '/api/v1/servers', { name: 'one' });
  const joining = String(made['join_token']);
  const agent = program('agent', ['--server', `${url}/default`, '--token', joining, '--runtime', 'mock']);
  agent.start();
  await until(
    'the agent is connected',
    async () => (await client.object('GET', `/api/v1/servers/${made.id}`))['agent_status'] === 'connected',
    { explain: () => agent.lastOutput() },
  );

  for (const [name, it] of [
    ['agent', agent],
    ['server', server],
  ] as const) {
    await it.kill('SIGTERM');
    loaded.set(name, Loaded.parse(JSON.parse(await readFile(join(folder, `${name}.json`), 'utf8'))));
  }
});
afterAll(() => rm(folder, { recursive: true, force: true }));

/** The direct dependencies that an idle program loads. */
function dependenciesOf(name: Name): string[] {
  const packages = (loaded.get(name)?.urls ?? []).map((url) => /\/node_modules\/((?:@[^/]+\/)?[^/]+)\//.exec(url)?.[1]);
  return Object.keys(packageFile.dependencies).filter((it) => packages.includes(it));
}

/** The files of this product that an idle program loads. */
function ownOf(name: Name): string[] {
  const own = (loaded.get(name)?.urls ?? []).filter((url) => url.startsWith(root) && !url.includes('/node_modules/'));
  return own.map((url) => url.slice(root.length));
}

it('an idle control plane on the embedded store loads no client of etcd or of mail, and no parser of uploads', () => {
  expect(dependenciesOf('server')).toEqual([
    'commander',
    'croner',
    'express',
    'jose',
    'otpauth',
    'p-queue',
    'pino',
    'prom-client',
    'ws',
    'zod',
  ]);
  expect(ownOf('server').filter((path) => /^(agent|web|store\/etcd)\//.test(path))).toEqual([]);
});

it('an idle agent loads no part of the control plane, no archiver, and one engine', () => {
  expect(dependenciesOf('agent')).toEqual(['commander', 'p-queue', 'pino', 'ws', 'zod']);
  expect(ownOf('agent').filter((path) => /^(controllers|web|store\/(etcd|sqlite))\//.test(path))).toEqual([]);
  expect(ownOf('agent').filter((path) => path.startsWith('agent/runtime/docker/'))).toEqual([]);
});

it.each(programs)('an idle %s does not load the client behind the globals fetch and WebSocket', (name) => {
  expect(loaded.get(name)?.builtins.filter((it) => it.includes('undici'))).toEqual([]);
});
