import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { createServer, request } from 'node:http';
import type { AddressInfo } from 'node:net';
import { networkInterfaces, tmpdir } from 'node:os';
import { join } from 'node:path';
import { pino } from 'pino';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { Route } from '../../../agent-protocol/workload.ts';
import { caddy } from '../../../agent/ingress/caddy.ts';
import { ServerIngress } from '../../../agent/ingress/server-ingress.ts';
import { FakeClock } from '../../harness/fake-clock.ts';
import { freePort } from '../../harness/program.ts';
import { askHost } from '../../harness/through-proxy.ts';
import { until } from '../../harness/until.ts';

let stack: AsyncDisposableStack;
let folder: string;
let clock: FakeClock;
let ingress: ServerIngress;
let settings: { http_port: number; https_port: number; acme: { ca?: string } };

const outside = <T>(value: T): T => JSON.parse(JSON.stringify(value).replaceAll('/setpoint', folder)) as T; // of one form
const within = (value: unknown): unknown => JSON.parse(JSON.stringify(value).replaceAll(folder, '/setpoint'));

/** Resolves with what Caddy wrote if it refuses the configuration. */
function refusalOf(path: string): Promise<string | undefined> {
  return new Promise((resolve) => {
    const env = { PATH: process.env['PATH'], HOME: folder };
    execFile('caddy', ['validate', '--config', path], { env }, (error, _, text) =>
      resolve(error === null ? undefined : text),
    );
  });
}

/** An agent's ingress, and the proxy itself without a container. */
beforeEach(async () => {
  stack = new AsyncDisposableStack();
  folder = await mkdtemp(join(tmpdir(), 'setpoint-refusals-'));
  stack.defer(() => rm(folder, { recursive: true }));
  clock = new FakeClock();
  settings = { http_port: await freePort(), https_port: await freePort(), acme: {} };
  ingress = new ServerIngress({
    folder,
    trafficFolder: join(folder, 'traffic'),
    openProxy: (sockets) => {
      const real = caddy(sockets);
      return {
        ...real,
        config: async (signal) => within(await real.config(signal)),
        load: (config, signal) => real.load(outside(config), signal),
        certificate: (host) => Promise.resolve({ host }),
      };
    },
    examine: async (_, [, , , path = '']) => {
      const trial = join(folder, 'examined.json');
      const text = await readFile(path.replace('/setpoint', folder), 'utf8');
      await writeFile(trial, text.replaceAll('/setpoint', folder));
      return refusalOf(trial);
    },
    clock,
    log: pino({ level: 'silent' }),
    opened: () => undefined,
    changed: () => undefined,
  });
  ingress.setProxy('proxy', settings);
  await ingress.mounts();
  const boot = join(folder, 'boot.json');
  await writeFile(boot, (await readFile(join(folder, 'caddy.json'), 'utf8')).replaceAll('/setpoint', folder));
  const env = { PATH: process.env['PATH'], HOME: folder };
  const child = spawn('caddy', ['run', '--config', boot], { stdio: 'ignore', env });
  const exited = once(child, 'exit');
  stack.defer(async () => {
    child.kill();
    await exited;
  });
  stack.use(ingress);
  await offerInstance();
  ingress.setRoutes('a', { workload: 'w', routes: [Route.parse({ host: 'plain.test', tls: 'off' })] });
  ingress.setRoutes('b', { workload: 'w2', routes: [optional('optional.test')] });
  ingress.release();
  await until('they are served', async () => {
    await clock.advance(1_000);
    return (await areServed()) && ingress.standOf('b').is === 'loaded';
  });
});
afterEach(async () => {
  await stack.disposeAsync();
});

/** An instance of each application, which is in this process. */
async function offerInstance(): Promise<void> {
  const address = Object.values(networkInterfaces())
    .flat()
    .find((it) => it?.family === 'IPv4' && !it.internal)?.address;
  if (address === undefined) throw new Error('The machine has no address but that of loopback');
  const instance = createServer((_, response) => response.end('Hello')).listen(0, address);
  await once(instance, 'listening');
  stack.defer(() => {
    instance.close();
    instance.closeAllConnections();
  });
  const { port } = instance.address() as AddressInfo; // it listens on a port
  for (const workload of ['w', 'w2', 'w3'])
    ingress.upstreams.offer(workload, { workload, service: 'main', address, ports: [port] });
}

const optional = (host: string, path = '/') =>
  Route.parse({ host, path, tls: 'off', headers: { set: { 'X-A': 'b' }, remove: [] } });

async function areServed(): Promise<boolean> {
  const hosts = ['plain.test', 'optional.test'] as const;
  const answers = await Promise.all(
    hosts.map((host) => askHost(`http://${host}/`, settings.http_port).catch(() => undefined)),
  );
  return answers.every((answer) => answer?.status === 200);
}

it('leaves out an application that the proxy refuses, and serves the others', async () => {
  await clock.advance(10_000);
  const closed = Route.parse({
    host: 'refused.test',
    tls: 'off',
    basic_auth: [{ username: 'ann', password_hash: '%' }],
  });
  ingress.setRoutes('c', { workload: 'w3', routes: [closed] });
  await until('it is refused', () => Promise.resolve(ingress.standOf('c').is === 'refused'));
  expect(await areServed()).toBe(true);
  ingress.setRoutes('c', { workload: 'w3', routes: [optional('refused.test')] });
  await until('it is taken', async () => {
    await clock.advance(1_000);
    return (await askHost('http://refused.test/', settings.http_port)).status === 200;
  });
});

it('puts back what was loaded from outside', async () => {
  await clock.advance(10_000);
  const config = outside(within({ admin: { listen: 'unix//setpoint/run/admin.sock|0600' }, apps: {} }));
  const answer = await new Promise<number>((resolve, reject) => {
    const headers = { host: 'agent', 'content-type': 'application/json' };
    const socketPath = join(folder, 'run/admin.sock');
    const outgoing = request({ socketPath, method: 'POST', path: '/load', headers });
    outgoing.on('error', reject).on('response', (it) => resolve(it.resume().statusCode ?? 0));
    outgoing.end(JSON.stringify(config));
  });
  expect(answer).toBe(200);
  expect(await areServed()).toBe(false);
  await until('they are served again', async () => {
    await clock.advance(1_000);
    return areServed();
  });
});

it('goes on with the settings of before while it does not take others', async () => {
  await clock.advance(10_000);
  const ca = '-----BEGIN CERTIFICATE-----\nQUJD\n-----END CERTIFICATE-----\n';
  ingress.setProxy('proxy', { ...settings, acme: { ca } });
  await until('it is told', () => Promise.resolve(ingress.problemOf('proxy') !== undefined));
  expect(await areServed()).toBe(true);
  const other = createServer().listen(0);
  stack.defer(() => void other.close());
  await once(other, 'listening');
  const taken = (other.address() as AddressInfo).port; // it listens on a port
  const name = (await readFile('/proc/self/comm', 'utf8')).trim();
  ingress.setProxy('proxy', { ...settings, http_port: taken });
  await until('the port is told', () =>
    Promise.resolve(ingress.problemOf('proxy')?.message.includes(`is taken by another program, ${name}`) === true),
  );
  expect(await areServed()).toBe(true);
  ingress.setProxy('proxy', settings);
  await until('all is well', () => Promise.resolve(ingress.problemOf('proxy') === undefined));
  expect(await areServed()).toBe(true);
});
