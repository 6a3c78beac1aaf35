import { once } from 'node:events';
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { z } from 'zod';
import { Refused } from '../../cli/client.ts';
import type { ApiObject } from '../../cli/client.ts';
import { docker, instancesOf } from '../harness/engine.ts';
import { startGitServer } from '../harness/git-server.ts';
import { Installation } from '../harness/installation.ts';
import { freePort } from '../harness/program.ts';
import { ensureCaddyImage, ensureTestImages } from '../harness/test-image.ts';
import { openHttp3Client } from '../harness/http3-client.ts';
import { askHost, echoed, Http2Load, Load, upgraded } from '../harness/through-proxy.ts';
import { longTag } from '../layer-report.ts';

let town: Installation;
let image: string;
let httpPort: number;
let httpsPort: number;

beforeAll(async () => {
  ({ http: image } = await ensureTestImages());
  const caddy = await ensureCaddyImage();
  [httpPort, httpsPort] = [await freePort(), await freePort()];
  town = await Installation.start({ store: 'sqlite', serverFlags: ['--ingress-image', caddy] });
  await town.client.object('PUT', `/api/v1/servers/${town.server.id}`, {
    direct_ports_enabled: false,
    ingress: { http_port: httpPort, https_port: httpsPort, wildcard_domain: 'apps.example.test' },
  });
  await town.until('the proxy runs', async () => hasCondition(await server(), 'IngressReady', 'true'), 60_000);
});
afterAll(async () => {
  await town[Symbol.asyncDispose]();
});

function server(): Promise<ApiObject> {
  return town.client.object('GET', `/api/v1/servers/${town.server.id}`);
}

function hasCondition(it: ApiObject, type: string, status: string, reason?: string): boolean {
  return (
    it.conditions?.some(
      (one) => one.type === type && one.status === status && (reason === undefined || one.reason === reason),
    ) === true
  );
}

/** A running application with these domains. */
async function served(name: string, domains: object[], more: object = {}): Promise<ApiObject> {
  const app = await town.createApplication({
    source_type: 'image',
    image_url: image,
    exposed_port: 8080,
    healthcheck_path: '/healthz',
    drain_seconds: 1,
    env: { APP: name },
    domains,
    ...more,
  });
  const { id } = await town.deploy(app.id);
  await town.deployment(id, 'succeeded');
  await routed(app.id);
  return app;
}

function routed(id: string): Promise<unknown> {
  return town.until('its domains lead to it', async () => {
    const app = await town.application(id);
    return hasCondition(app, 'RoutesReady', 'true') && app.observed_generation === app.generation;
  });
}

const http = (address: `http://${string}`, asking = {}) => askHost(address, httpPort, asking);
const https = (address: `https://${string}`, asking = {}) => askHost(address, httpsPort, asking);

it('leads hosts and paths to applications, in clear and encrypted, and tells of hosts that it does not know', async () => {
  const app = await served('one', [
    { host: 'Clear.Example.test', tls: 'off' },
    { host: 'sealed.example.test', tls: 'internal' },
    { host: 'both.example.test', path: '/', tls: 'internal' },
  ]);
  await served('two', [{ host: 'both.example.test', path: '/two/', tls: 'internal' }]);

  expect((await http('http://clear.example.test/env/APP')).body).toBe('one');
  const sealed = await http('http://sealed.example.test/env/APP?a=b');
  expect(sealed.status).toBe(308);
  expect(sealed.headers.location).toBe(`https://sealed.example.test:${httpsPort}/env/APP?a=b`);
  expect((await https('https://sealed.example.test/env/APP')).body).toBe('one');
  expect((await https('https://both.example.test/env/APP')).body).toBe('one');
  expect((await https('https://both.example.test/two/env/APP')).status).toBe(200);
  expect(JSON.parse((await https('https://both.example.test/two')).body)).toMatchObject({ env: { APP: 'two' } });

  expect((await http('http://unknown.example.test/')).status).toBe(404);
  await expect(https('https://unknown.example.test/')).rejects.toThrow(/alert/);
  const misdirected = await https('https://sealed.example.test/', { headers: { host: 'unknown.example.test' } });
  expect(misdirected.status).toBe(421);

  const shown = await town.application(app.id);
  expect(shown['urls']).toEqual([
    `https://${String(shown['internal_id'])}.apps.example.test:${httpsPort}/`,
    `http://clear.example.test:${httpPort}/`,
    `https://sealed.example.test:${httpsPort}/`,
    `https://both.example.test:${httpsPort}/`,
  ]);

  const taken = town.createApplication({
    source_type: 'image',
    image_url: image,
    domains: [{ host: 'clear.example.test' }],
  });
  await expect(taken).rejects.toThrow(/is used/);

  await town.client.object('PUT', `/api/v1/applications/${app.id}`, { domains: [] });
  await town.until('nothing leads there', async () => (await http('http://clear.example.test/')).status === 404);
});

it(
  'replaces all instances under load without a failed request and without another configuration',
  { tags: [longTag] },
  async () => {
    const app = await served('swapped', [{ host: 'swapped.example.test', tls: 'off' }], { replicas: 2 });
    const before = await instancesOf(app.id);
    const load = new Load('http://swapped.example.test/', httpPort, 8);
    const settled = (): Promise<unknown> =>
      town.until(
        'it is settled',
        async () => {
          const it = await town.application(app.id);
          const busy = it.conditions?.some((one) => one.type === 'Reconciling' && one.status === 'true');
          return it.status === 'running' && busy !== true && it.observed_generation === it.generation;
        },
        120_000,
      );
    await town.client.request('POST', `/api/v1/applications/${app.id}/scale`, { replicas: 3 });
    await settled();
    const { id } = await town.deploy(app.id);
    await town.deployment(id, 'succeeded');
    await settled();
    await town.until('the former instances are gone', async () => {
      const after = await instancesOf(app.id);
      return after.length === 3 && !after.some((one) => before.includes(one));
    });
    const { count, failures } = await load.stop();
    expect(failures).toEqual([]);
    expect(count).toBeGreaterThan(500);
  },
);

it(
  'swaps the instances of WebSockets, which end with their instance, and of HTTP/2 and HTTP/3',
  { tags: [longTag] },
  async () => {
    const host = 'modern.example.test';
    const app = await served('modern', [{ host, tls: 'internal' }], { drain_seconds: 10 });
    const Page = z.object({ host: z.string(), via: z.string() });
    const page = async () => Page.parse(JSON.parse((await https(`https://${host}/`)).body));
    const first = await page();
    await using three = await openHttp3Client(host, httpsPort);
    const byThree = Page.parse(JSON.parse((await askHost(`http://${host}/`, three.port)).body));
    expect(byThree.via).toContain('3');
    const loads = [new Load(`http://${host}/`, three.port, 2), new Http2Load(`https://${host}`, httpsPort)];
    const socket = await upgraded(host, httpsPort);
    expect(await echoed(socket, 'before')).toBe('before');
    const ended = once(socket, 'close');

    await town.deploy(app.id);
    await town.until('another instance answers', async () => (await page()).host !== first.host, 60_000);
    // the WebSocket is still with the former one
    expect(await echoed(socket, 'while it drains')).toBe('while it drains');
    await ended;
    await town.until('the former instance is gone', async () => (await instancesOf(app.id)).length === 1, 60_000);
    for (const load of loads) {
      const { count, failures } = await load.stop();
      expect(failures).toEqual([]);
      expect(count).toBeGreaterThan(50);
    }
  },
);

it('leads two domains to two services of a compose file, each at its port', { tags: [longTag] }, async () => {
  const service = (name: string) => [
    `  ${name}:`,
    `    image: ${image}`,
    `    environment: {APP: ${name}}`,
    '    expose: ["8080"]',
  ];
  const app = await town.createApplication({
    source_type: 'compose',
    compose_file: ['services:', ...service('front'), ...service('back'), ''].join('\n'),
    compose_service: 'front',
    domains: [
      { host: 'front.example.test', tls: 'off' },
      { host: 'back.example.test', tls: 'off', service: 'back', port: 8080 },
    ],
  });
  const { id } = await town.deploy(app.id);
  await town.deployment(id, 'succeeded');
  await routed(app.id);
  expect((await http('http://front.example.test/env/APP')).body).toBe('front');
  expect((await http('http://back.example.test/env/APP')).body).toBe('back');
});

it('goes on while the agent is away, and comes back when its container is removed', async () => {
  await served('lasting', [{ host: 'lasting.example.test', tls: 'off' }]);
  const load = new Load('http://lasting.example.test/', httpPort, 4);
  await town.until('requests are answered', () => Promise.resolve(load.count > 50));
  await town.agent.kill();
  const seen = load.count;
  await town.until('requests were answered without the agent', () => Promise.resolve(load.count > seen + 500), 60_000);
  town.agent.start();
  await town.until('the server is active', async () => (await server()).status === 'active', 60_000);
  const { failures } = await load.stop();
  expect(failures).toEqual([]);

  const [proxy] = await instancesOf(town.server.id);
  await docker('rm', '--force', proxy!);
  await town.until(
    'the proxy is back',
    async () => (await http('http://lasting.example.test/env/APP').catch(() => undefined))?.body === 'lasting',
    60_000,
  );
});

it(
  'carries out the options of a domain: users, headers, limits of a body, another address',
  { tags: [longTag] },
  async () => {
    const app = await served('options', [
      {
        host: 'options.example.test',
        tls: 'internal',
        basic_auth: [{ username: 'ann', password: 'correct horse' }],
        headers: { set: { 'X-Frame-Options': 'DENY' }, remove: ['Content-Type'] },
        max_body_bytes: 10,
        timeout_seconds: 1,
      },
      { host: 'former.example.test', tls: 'off', redirect_to: 'https://options.example.test/new' },
    ]);
    const authorization = `Basic ${Buffer.from('ann:correct horse').toString('base64')}`;
    const ask = (path: string, asking = {}) =>
      https(`https://options.example.test${path}`, { headers: { authorization }, ...asking });
    expect((await https('https://options.example.test/env/APP')).status).toBe(401);
    const answer = await ask('/env/APP');
    expect(answer).toMatchObject({ status: 200, body: 'options' });
    expect(answer.headers).toMatchObject({ 'x-frame-options': 'DENY' });
    expect((await ask('/', { method: 'POST', body: 'longer than ten' })).status).toBe(413);
    expect((await ask('/slow/3000')).status).toBe(503);
    expect((await http('http://former.example.test/')).headers.location).toBe('https://options.example.test/new');

    const shown = await town.application(app.id);
    expect(JSON.stringify(shown)).not.toContain('argon2');
    // what is shown can be sent back: the password stays
    await town.client.object('PUT', `/api/v1/applications/${app.id}`, { domains: shown['domains'] });
    await routed(app.id);
    expect((await ask('/env/APP')).body).toBe('options');
  },
);

it(
  'leaves no container, network, image, volume or route of a deleted application, and shows nothing of its output',
  { tags: [longTag] },
  async () => {
    await using git = await startGitServer();
    const { url } = await git.repository({ Dockerfile: `FROM ${image}\nENV APP=traced\n` });
    const environment = await town.client.object('POST', `/api/v1/projects/${town.project.id}/environments`, {
      name: 'traced',
    });
    const before = await onEngine();
    const host = 'traced.example.test';
    const app = await served('traced', [{ host, tls: 'internal' }], {
      source_type: 'git',
      repository_url: url,
      branch: 'main',
      dockerfile_path: 'Dockerfile',
      image_url: undefined,
      environment_id: environment.id,
    });
    expect((await https(`https://${host}/log/traced-line`)).status).toBe(200);
    await town.until('its line is stored', async () => {
      const logs = await town.client.request('GET', `/api/v1/applications/${app.id}/runtime-logs?search=traced-line`);
      return JSON.stringify(logs).includes('traced-line');
    });
    const during = await onEngine();
    for (const kind of ['containers', 'networks', 'images'] as const)
      expect(during[kind].length, kind).toBeGreaterThan(before[kind].length);

    await town.client.request('DELETE', `/api/v1/applications/${app.id}`);
    await town.until('it is gone', async () =>
      town.application(app.id).then(
        () => false,
        (error: unknown) => error instanceof Refused && error.status === 404,
      ),
    );
    await expect(town.client.request('GET', `/api/v1/applications/${app.id}/runtime-logs`)).rejects.toMatchObject({
      status: 404,
    });
    expect((await http(`http://${host}/`)).status).toBe(404);
    // the proxy has its certificate in memory for some time
    expect((await https(`https://${host}/`)).status).toBe(421);
    await town.until(
      'the engine has nothing of it',
      async () => {
        const now = await onEngine();
        const left = Object.entries(now).flatMap(([kind, ids]) =>
          ids.filter((id) => !Object.values(before).flat().includes(id)).map((id) => `${kind}: ${id}`),
        );
        if (left.length > 0) throw new Error(left.join('\n'));
        return true;
      },
      60_000,
    );
  },
);

/** What the engine has of the server, besides the image of the proxy. */
async function onEngine(): Promise<Record<'containers' | 'networks' | 'images' | 'volumes', string[]>> {
  const own = ['--quiet', '--filter', `label=setpoint.server=${town.server.id}`];
  const idsOf = async (...command: string[]) =>
    (await docker(...command, ...own))
      .split('\n')
      .filter((id) => id !== '')
      .toSorted();
  return {
    containers: await idsOf('ps', '--all'),
    networks: await idsOf('network', 'ls'),
    images: await idsOf('images', '--all'),
    volumes: await idsOf('volume', 'ls'),
  };
}

it('takes its proxy and its routes away when an application and the ingress are removed', async () => {
  const app = await served('leaving', [{ host: 'leaving.example.test', tls: 'internal' }]);
  expect((await https('https://leaving.example.test/env/APP')).body).toBe('leaving');
  const storage = join(town.dir, 'agent/ingress/storage');
  expect(await filesBelow(storage)).toContain('leaving.example.test');
  // for a day, as the domain may be moved
  await town.client.object('PUT', `/api/v1/applications/${app.id}`, {
    domains: [{ host: 'later.example.test', tls: 'off' }],
  });
  await town.until(
    'the host leads nowhere',
    async () => (await http('http://leaving.example.test/')).status === 404,
    60_000,
  );
  expect(await filesBelow(storage)).toContain('leaving.example.test');
  await town.client.object('PUT', `/api/v1/applications/${app.id}`, {
    domains: [{ host: 'leaving.example.test', tls: 'internal' }],
  });
  await routed(app.id);
  await town.client.request('DELETE', `/api/v1/applications/${app.id}`);
  await town.until('it is gone', async () =>
    town.application(app.id).then(
      () => false,
      (error: unknown) => error instanceof Refused && error.status === 404,
    ),
  );
  expect((await http('http://leaving.example.test/')).status).toBe(404);
  expect(await filesBelow(storage)).not.toContain('leaving.example.test');
  await town.until(
    'no file has its name',
    async () => {
      const left = await filesWith(join(town.dir, 'agent'), 'leaving.example.test');
      if (left.length > 0) throw new Error(left.join('\n'));
      return true;
    },
    60_000,
  );

  await town.client.object('PUT', `/api/v1/servers/${town.server.id}`, { ingress: { enabled: false } });
  await town.until('the proxy is gone', async () => (await instancesOf(town.server.id)).length === 0, 60_000);
});

/** The files below a folder that have that text, besides the logs of the proxy, which are of the server. */
async function filesWith(folder: string, text: string): Promise<string[]> {
  const found: string[] = [];
  for (const entry of await readdir(folder, { recursive: true, withFileTypes: true })) {
    const path = join(entry.parentPath, entry.name);
    if (!entry.isFile() || path.includes('/ingress/log/') || path.includes(`/logs/${town.server.id}/`)) continue;
    const bytes = await readFile(path).catch(() => Buffer.alloc(0));
    if (bytes.includes(text)) found.push(path);
  }
  return found;
}

/** Names of all files and folders below a folder. */
async function filesBelow(folder: string): Promise<string> {
  return (await readdir(folder, { recursive: true })).join('\n');
}
