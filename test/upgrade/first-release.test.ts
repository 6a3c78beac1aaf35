import { chmod, cp, mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pino } from 'pino';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { z } from 'zod';
import { systemClock } from '../../time/clock.ts';
import { startAgent } from '../../agent/agent.ts';
import type { Agent } from '../../agent/agent.ts';
import { engineOf } from '../../agent/engine/engine.ts';
import { MockEngine } from '../../agent/runtime/mock/mock-engine.ts';
import { mockRuntime } from '../../agent/runtime/mock/mock-runtime.ts';
import { labels } from '../../agent/runtime/runtime.ts';
import type { PortPublisher } from '../../agent/ports/port-publisher.ts';
import { MockPorts } from '../../agent/ports/mock-ports.ts';
import { createClient } from '../../cli/client.ts';
import { startControlPlane } from '../../cli/control-plane.ts';
import type { ControlPlane } from '../../cli/control-plane.ts';
import { parseConfig } from '../../cli/parse-config.ts';
import { ServerConfig } from '../../cli/server-config.ts';
import { openImages } from '../harness/open-images.ts';
import { presentHistory } from '../../controllers/gateway/history.ts';
import { eventually } from '../harness/eventually.ts';
import { until } from '../harness/until.ts';

/**
 * What `setpoint dev` of the first release left: its store, the directory of its agent, and what `docker inspect` showed
 * of the containers. One application was built from git, one has two replicas of an image, limits, a command and secrets
 * and was restarted, one was stopped.
 */
const release = join(import.meta.dirname, 'first-release');
const Found = z.array(
  z.object({
    id: z.string(),
    name: z.string(),
    image: z.string(),
    labels: z.record(z.string(), z.string()),
    env: z.array(z.string()),
    command: z.array(z.string()),
    memory_bytes: z.int(),
    nano_cpus: z.int(),
    restart: z.enum(['no', 'unless-stopped']),
    network: z.string(),
  }),
);
/** References of the images, by id. */
const images = {
  'sha256:18d376d1dcee': 'setpoint/hello-8aa767:1',
  'sha256:67fbd4360c2a': 'setpoint-base/node:latest',
};

const log = pino({ level: process.env['TEST_LOG'] ?? 'silent' });
let folder: string;
let engine: MockEngine;
let ports: MockPorts;
let publisher: PortPublisher;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'setpoint-upgrade-'));
  for (const part of ['server', 'agent']) await cp(join(release, part), join(folder, part), { recursive: true });
  // A checkout does not keep who may read them.
  for (const secret of ['server/keys.json', 'agent/identity.json']) await chmod(join(folder, secret), 0o600);
  // The containers have run for a minute, so that those without a health check are ready.
  let agoMs = 60_000;
  engine = new MockEngine({ ...systemClock, now: () => new Date(Date.now() - agoMs) });
  ports = new MockPorts();
  publisher = ports.publisher();
  for (const { id, image, ...found } of Found.parse(
    JSON.parse(await readFile(join(release, 'containers.json'), 'utf8')),
  )) {
    const [, reference = ''] = Object.entries(images).find(([start]) => image.startsWith(start)) ?? [];
    if ((await mockRuntime(engine).image(reference, AbortSignal.timeout(1000))) === undefined)
      engine.addImage(reference, { id: image, local: true });
    const { [labels.server]: server = '' } = found.labels;
    engine.ensureNetwork(found.network, { [labels.server]: server });
    await engine.found(id, {
      ...found,
      image: reference,
      env: Object.fromEntries(
        found.env.map((one) => [one.slice(0, one.indexOf('=')), one.slice(one.indexOf('=') + 1)]),
      ),
      memoryBytes: found.memory_bytes,
      nanoCpus: found.nano_cpus,
      networks: [{ name: found.network, aliases: [found.name] }],
    });
  }
  agoMs = 0;
});
afterEach(() => rm(folder, { recursive: true }));

function startPlane(): Promise<ControlPlane> {
  const options = { listen: '127.0.0.1:0', data: join(folder, 'server'), logLevel: 'fatal' };
  return startControlPlane(parseConfig(ServerConfig, options), log);
}

async function startUpgradedAgent(plane: ControlPlane): Promise<Agent> {
  const own = await engineOf({ type: 'mock', clock: systemClock, engine, ports: publisher });
  const disk = async () => ({ freeBytes: 50e9, totalBytes: 100e9 });
  return startAgent({
    controlPlane: [`${plane.url}/default`],
    dataDir: join(folder, 'agent'),
    engine: own,
    images: await openImages(own.runtime, join(folder, 'agent'), disk),
    build: () => Promise.reject(new Error('No build is expected')),
    gitHead: () => Promise.reject(new Error('No git is expected')),
    gitTag: () => Promise.reject(new Error('No git is expected')),
    dockerfiles: () => Promise.reject(new Error('No git is expected')),
    repositories: () => Promise.reject(new Error('No git is expected')),
    disk,
    logBytes: 1024 ** 3,
    version: '0.0.0',
    clock: systemClock,
    random: Math.random,
    log,
  });
}

/** As its user does it, with the password of before. */
async function startIdle(plane: ControlPlane): Promise<void> {
  const account = { email: 'admin@localhost.localdomain', password: 'quyeADolOnM8YBdV' };
  const at = { server: plane.url, tenant: 'default' };
  const login = await createClient(at).request('POST', '/api/v1/auth/login', account);
  const { token } = z.object({ token: z.string() }).parse(login);
  const idle = plane.mirror
    .tenant('default')
    .list('application')
    .find(({ desired }) => desired.name === 'idle');
  await createClient({ ...at, token }).request('POST', `/api/v1/applications/${idle?.meta.id}/start`);
}

const states = (plane: ControlPlane) =>
  Object.fromEntries(
    plane.mirror
      .tenant('default')
      .list('application')
      .map((it) => [it.desired.name, `${it.observed?.phase} ${it.observed?.ready_replicas}`]),
  );

/** @throws if the applications are in other states */
function areIn(plane: ControlPlane, wanted: Record<string, string>): true {
  expect(states(plane)).toEqual(wanted);
  return true;
}

/** What was done to containers. That a healthy one is restarted by the engine is set anew after each start of an agent. */
const touched = () => engine.journal.filter(({ verb }) => !['setRestart', 'ensureNetwork'].includes(verb));

test('an installation of the first release goes on: no container is touched, its ports lead on, its secrets open', async () => {
  const ids = engine.containers.map(({ id }) => id);
  const began = touched().length;
  const running = { hello: 'running 1', worker: 'running 2' };
  for (const idle of ['stopped 0', 'running 1']) {
    await using plane = await startPlane();
    const view = plane.mirror.tenant('default');
    const [server] = view.list('server');
    await using agent = await startUpgradedAgent(plane);
    const isIn = () => view.agent(server!.meta.id)?.capabilities !== undefined;
    await eventually(plane.mirror, isIn, { timeoutMs: 20_000 });
    // at first the reports are on the settings that the earlier release gave to instances
    await eventually(plane.mirror, () => areIn(plane, { ...running, idle: 'stopped 0' }), { timeoutMs: 20_000 });
    if (idle !== 'stopped 0') await startIdle(plane);
    await eventually(plane.mirror, () => states(plane)['idle'] === idle, { timeoutMs: 25_000 });
    await until('the agent has the set of this start', async () => {
      const position = agent.backend.position();
      return position !== undefined && position.incarnation === (await presentHistory(plane.store));
    });
    expect(states(plane)).toEqual({ ...running, idle });
    expect(view.list('server').map(({ observed }) => observed?.phase)).toEqual(['active']);
    expect([18_080, 18_081].map((port) => ports.backends(port)?.length)).toEqual([1, 2]);
  }
  // From the first rules on: no start of the agent takes a port from an instance.
  for (const led of ports.journal) expect([18_080, 18_081].map((port) => led.get(port)?.length)).toEqual([1, 2]);
  expect(engine.containers.slice(0, ids.length).map(({ id }) => id)).toEqual(ids);
  const made = engine.containers.slice(ids.length);
  expect(made.map(({ name }) => name)).toEqual([expect.stringMatching(/^sp-idle-/)]);
  expect(made[0]?.mutable.env).toMatchObject({ SECRET: 's3cret-of-the-upgrade', GREETING: 'kept "as it" is' });
  expect(touched().slice(began)).toEqual(['create', 'start'].map((verb) => ({ verb, target: made[0]?.name })));
}, 120_000);
